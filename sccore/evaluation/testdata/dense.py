"""References of the dense evaluations in numpy, from their papers and the official code's formulas. Writes dense.json beside this file."""
import itertools
import json
import pathlib

import numpy as np


def values(k, *shape):
    """The numbers that the Go test makes too."""
    i = np.arange(int(np.prod(shape)), dtype=np.float64)
    x = np.sin(12.9898 * i + 78.233 * k) * 43758.5453
    return (2 * (x - np.floor(x)) - 1).astype(np.float32).astype(np.float64).reshape(shape)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def in_context():
    """Balazevic et al. 2023, equation 2: attention to the nearest patches of the memory."""
    memory, queries = unit(values(1, 200, 8)), unit(values(2, 40, 8))
    labels = np.abs(values(3, 200, 5))
    labels /= labels.sum(1, keepdims=True)
    similarity = queries @ memory.T
    out = np.zeros((40, 5))
    for q in range(40):
        nearest = np.argsort(-similarity[q])[:30]
        weights = np.exp(similarity[q, nearest] / 0.02)
        out[q] = weights / weights.sum() @ labels[nearest]
    return out


def miou(confusion):
    """confusion is [truth, prediction]."""
    both = np.diag(confusion).astype(float)
    either = confusion.sum(0) + confusion.sum(1) - both
    return 100 * (both[either > 0] / either[either > 0]).mean()


def overclustering():
    """Spherical k-means from the first patches as centres, then names by majority and by the permutation with the largest sum of IoUs, as Leopart."""
    patches, truth = unit(values(4, 300, 6)), np.arange(300) * 7 % 11 % 5
    found = []
    for count in (20, 5):
        centres = patches[:count]
        for _ in range(50):
            labels = np.argmax(patches @ unit(centres).T, axis=1)
            centres = np.stack([patches[labels == c].mean(0) if (labels == c).any() else centres[c] for c in range(count)])
        counts = np.zeros((count, 5), dtype=int)
        np.add.at(counts, (labels, truth), 1)

        def score(names):
            confusion = np.zeros((5, 5), dtype=int)
            for cluster, name in enumerate(names):
                confusion[:, name] += counts[cluster]
            return miou(confusion)

        result = {"labels": labels.tolist(), "majority": score(counts.argmax(1))}
        if count == 5:
            ious = counts / (counts.sum(0) + counts.sum(1, keepdims=True) - counts)
            best = max(itertools.permutations(range(5)), key=lambda names: sum(ious[c, n] for c, n in enumerate(names)))
            result["hungarian"] = score(best)
        found.append(result)
    return found


def component(foreground, seed, rows, columns):
    """The patches that scipy.ndimage.label with its default structure puts in one component with the seed."""
    reached, queue = {seed}, [seed]
    while queue:
        y, x = divmod(queue.pop(), columns)
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            p = v * columns + u
            if 0 <= v < rows and 0 <= u < columns and foreground[p] and p not in reached:
                reached.add(p)
                queue.append(p)
    return [p in reached for p in range(rows * columns)]


def scene(k, rows, columns):
    """Keys of two kinds, one of them in a rectangle, with noise."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    inside = (y >= 2) & (y < 6) & (x >= 3) & (x < 8)
    kinds = np.array([[1.0, -0.2, 0.1, 0.3, 0, 0, 0.2, -0.1], [-0.4, 0.9, 0.3, 0, 0.5, 0.1, 0, 0.2]])
    return (kinds[inside.astype(int)] + 0.9 * values(k, rows * columns, 8)).astype(np.float32).astype(np.float64)


def lost(keys, rows, columns, expansion):
    """Simeoni et al. 2021: patch_scoring, lost and detect_box of the official object_discovery.py."""
    similarity = keys @ keys.T
    positive = similarity.copy()
    np.fill_diagonal(positive, 0)
    order = np.argsort((positive > 0).sum(1), kind="stable")
    seed = order[0]
    potentials = order[:expansion]
    similar = potentials[similarity[seed, potentials] > 0]
    return component(similarity[similar].sum(0) > 0, seed, rows, columns)


def tokencut(keys, rows, columns, tau):
    """Wang et al. 2022: ncut and detect_box of the official object_discovery.py."""
    features = unit(keys)
    weights = np.where(features @ features.T > tau, 1.0, 1e-5)
    degree = weights.sum(1)
    scale = 1 / np.sqrt(degree)
    _, vectors = np.linalg.eigh(scale[:, None] * (np.diag(degree) - weights) * scale[None])
    second = scale * vectors[:, 1]
    foreground = second > second.mean()
    seed = np.argmax(np.abs(second))
    if not foreground[seed]:
        foreground = ~foreground
    return component(foreground, seed, rows, columns)


def pck():
    """Min et al. 2019: nearest feature of bilinearly interpolated ones, right within 0.1 of the longer side of the box."""
    right, points, shares, found_all = 0, 0, [], []
    for pair in range(6):
        source, target = values(20 + pair, 9, 12, 6), values(40 + pair, 9, 12, 6)
        target[2:7, 3:10] = source[1:6, 2:9]
        kps = np.stack([5 + 190 * np.abs(values(60 + pair, 7)), 4 + 140 * np.abs(values(70 + pair, 7))], 1)
        truth = kps * [1.5, 1.25] + [25, 20] + 9 * values(80 + pair, 7, 2)
        box = [30.0, 20.0, 200.0 + 10 * pair, 150.0]
        found = []
        for x, y in kps:  # The source has 200x150 pixels, the target 300x188.
            v, u = np.clip(y * 9 / 150 - 0.5, 0, 8), np.clip(x * 12 / 200 - 0.5, 0, 11)
            top, left = int(v), int(u)
            bottom, right_column = min(top + 1, 8), min(left + 1, 11)
            dv, du = v - top, u - left
            feature = ((1 - dv) * ((1 - du) * source[top, left] + du * source[top, right_column])
                       + dv * ((1 - du) * source[bottom, left] + du * source[bottom, right_column]))
            best = int(np.argmax(unit(target.reshape(-1, 6)) @ feature))
            found.append([(best % 12 + 0.5) * 300 / 12, (best // 12 + 0.5) * 188 / 9])
        hits = np.hypot(*(np.array(found) - truth).T) <= 0.1 * max(box[2] - box[0], box[3] - box[1])
        right, points = right + int(hits.sum()), points + 7
        shares.append(hits.mean())
        found_all.append(found)
    return {"found": found_all, "per_image": 100 * float(np.mean(shares)), "per_point": 100 * right / points}


def packed(mask):
    return "".join("1" if m else "0" for m in mask)


golden = {
    "in_context": np.round(in_context(), 9).tolist(),
    "overclustering": overclustering(),
    "lost": [packed(lost(scene(k, 9, 12), 9, 12, 20)) for k in range(90, 94)],
    "tokencut": [packed(tokencut(scene(k, 9, 12), 9, 12, 0.2)) for k in range(90, 94)],
    "pck": pck(),
}
(pathlib.Path(__file__).parent / "dense.json").write_text(json.dumps(golden) + "\n")
print(golden["lost"], golden["tokencut"], golden["pck"]["per_image"], golden["pck"]["per_point"], golden["overclustering"][0]["majority"])
