"""Writes mutual.json: mutual nearest neighbours by cosine, by numpy. Features are rounded waves, which mutual_test.go makes, too."""
import json

import numpy as np


def wave(k, n, dim):
    return np.sin(12.9898 * np.arange(n * dim) ** 2 + 78.233 * k).reshape(n, dim)


cases = []
for n, m, dim, threshold in [(30, 40, 6, -1.0), (30, 40, 6, 0.8), (50, 20, 12, 0.3), (7, 7, 2, 0.99)]:
    a, b = wave(n, n, dim), wave(m + 2, m, dim)
    s = (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
    best, back = s.argmax(1), s.argmax(0)
    matches = [[i, int(j), round(float(s[i, j]), 6)] for i, j in enumerate(best) if back[j] == i and s[i, j] >= threshold]
    cases.append({"n": n, "m": m, "dim": dim, "threshold": threshold, "matches": matches})
json.dump(cases, open("mutual.json", "w"), separators=(",", ":"))
print([len(c["matches"]) for c in cases])
