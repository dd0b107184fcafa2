"""Writes tsne.json: affinities, divergences, gradients and embeddings by scikit-learn's exact t-SNE. Needs numpy, scipy and scikit-learn."""
import json

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import TSNE, _t_sne

rng = np.random.default_rng(0)



def joint(x, perplexity):
    """The joint probabilities by bisection in float64: scikit-learn's are rounded, and a descent far from its end multiplies any difference."""
    squared = squareform(pdist(x, "sqeuclidean"))
    p = np.zeros_like(squared)
    for i, row in enumerate(squared):
        others = np.delete(row, i) - np.delete(row, i).min()

        def probabilities(beta):
            weights = np.exp(-beta * others)
            return weights / weights.sum()

        def entropy(beta):
            q = probabilities(beta)
            return -(q * np.log(np.maximum(q, 1e-300))).sum()

        beta = brentq(lambda b: entropy(b) - np.log(perplexity), 1e-9, 1e3, xtol=1e-14, rtol=1e-14)
        p[i] = np.insert(probabilities(beta), i, 0)
    return (p + p.T) / (2 * len(x))


cases = []
for n, dim, classes, perplexity in [(120, 4, 4, 30.0), (110, 5, 5, 30.0)]:
    centres = 3 * rng.standard_normal((classes, dim))
    x = np.round(centres[np.arange(n) % classes] + rng.standard_normal((n, dim)), 2)
    p = squareform(_t_sne._joint_probabilities(squareform(pdist(x, "sqeuclidean")).astype(np.float32), perplexity, 0))
    exact, rounded = joint(x, perplexity), _t_sne._joint_probabilities
    assert np.abs(exact - p).max() < 1e-4 * p.max()
    _t_sne._joint_probabilities = lambda *_: squareform(exact, checks=False)
    runs = [TSNE(perplexity=perplexity, method="exact", init=1e-4 * x[:, start:start + 2]).fit(x) for start in range(2)]
    _t_sne._joint_probabilities = rounded
    y = np.round(runs[0].embedding_.astype(np.float64), 3)
    kl, grad = _t_sne._kl_divergence(y.ravel(), squareform(p, checks=False), 1, n, 2)
    cases.append({
        "perplexity": perplexity, "features": x.tolist(),
        "affinities": [[float(f"{v:.6g}") for v in row] for row in p[:4]],
        "points": y.tolist(), "divergence": float(kl), "gradient": [[float(f"{v:.5g}") for v in row] for row in grad.reshape(n, 2)],
        "divergences": [float(run.kl_divergence_) for run in runs],
    })
json.dump(cases, open("tsne.json", "w"), separators=(",", ":"))
print([c["divergences"] for c in cases])
