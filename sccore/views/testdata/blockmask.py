"""Writes blockmask.json: masks of iBOT's block-wise masking, drawn from given numbers in [0, 1).

The algorithm is written out from the description in BEiT (algorithm 1) with the limits of iBOT's loader. An integer up to n is floor(u * (n + 1)).

Run: python blockmask.py
"""
import json
import math
import random

numbers = random.Random(1)
cases = []


def case(rows, columns, shares):
    drawn = []

    def u():
        drawn.append(round(numbers.random(), 5) % 1)
        return drawn[-1]

    def uniform(a, b):
        return a + (b - a) * u()

    def integer(n):
        return math.floor(u() * (n + 1))

    options = [uniform(mean - spread, mean + spread) if spread > 0 else mean for mean, spread in shares]
    share = options[integer(len(options) - 1)] if len(options) > 1 else options[0]
    high = share * rows * columns
    grid = [[0] * columns for _ in range(rows)]
    count = 0
    while count < high:
        room, added = high - count, 0
        for _ in range(10):
            area = uniform((min(rows, columns) // 3) ** 2, room)
            aspect = math.exp(uniform(math.log(0.3), math.log(1 / 0.3)))
            h, w = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
            if w < columns and h < rows:
                top, left = integer(rows - h), integer(columns - w)
                new = h * w - sum(sum(row[left:left + w]) for row in grid[top:top + h])
                if 0 < new <= room:
                    for row in grid[top:top + h]:
                        row[left:left + w] = [1] * w
                    added = new
            if added > 0:
                break
        if added == 0:
            break
        count += added
    cases.append({"Rows": rows, "Columns": columns, "Shares": [{"mean": m, "spread": s} for m, s in shares], "Numbers": drawn,
                  "Mask": ["".join("#" if v else "." for v in row) for row in grid]})


for rows, columns in [(14, 14), (6, 6), (5, 9), (2, 2)]:
    for shares in [[(0.3, 0.0)], [(0.3, 0.2)], [(0, 0), (0.3, 0.2)], [(0.8, 0.1)]]:
        for _ in range(3):
            case(rows, columns, shares)

with open("blockmask.json", "w") as f:
    json.dump(cases, f, separators=(",", ":"))
    f.write("\n")
