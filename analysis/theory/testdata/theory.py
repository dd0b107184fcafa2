"""Writes theory.json: the theorem's quantities of small feature sets by NumPy and scikit-learn, from the paper's definitions.

Run with numpy and scikit-learn installed: python theory.py > theory.json
"""
import json

import numpy as np
from sklearn.neighbors import NearestCentroid

cases = []
for seed, (k, n, m, d, noise) in enumerate([(3, 4, 3, 3, 0.2), (2, 5, 2, 4, 0.8), (4, 3, 2, 5, 0.05)]):
    rng = np.random.default_rng(seed)
    x = noise * rng.standard_normal((k * n * m, d))
    label = np.repeat(np.arange(k), n * m)
    image = np.repeat(np.arange(k * n), m)
    x[np.arange(len(x)), label % d] += 1
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = np.minimum(z @ z.T, 1)
    np.fill_diagonal(s, 1)
    c = z.T @ z / len(z)
    spectrum = np.linalg.eigvalsh(c)
    delta, dt = 0.9, 0.6
    same_image = image[:, None] == image[None]
    same_class = label[:, None] == label[None]
    p = max(np.mean(s[np.ix_(image == g, image == g)] <= delta) for g in range(k * n))
    q = max(np.mean(s[np.ix_(image == g, (label == label[image == g][0]) & (image != g))] <= dt) for g in range(k * n))
    omega = max(np.mean([v @ c @ v for v in z[image == g]]) for g in range(k * n))
    rho = ((1 - p) * delta - p + (n - 1) * ((1 - q) * dt - q)) / n
    kappa = np.sqrt(max(0, k * omega - (n - 1) / n * (1 - q) * dt**2 - (1 - p) * delta**2 / n))
    predicted = NearestCentroid().fit(z, label).predict(z)
    quarter = 2.0  # 1/(4 alpha) at alpha = 1/8
    d2 = np.where(same_image, (1 - quarter) ** 2 - (s - quarter) ** 2, 0).sum(1)
    cases.append(dict(
        classes=k, images=n, views=m, rows=x.tolist(), view_threshold=delta, class_threshold=dt, view_tail=p, class_tail=q, omega=omega,
        rho=rho, kappa=kappa, gamma=(3 * rho - 1) / 2 - kappa, error=float(np.mean(predicted != label)),
        effective_rank=float(np.exp(-(spectrum * np.log(spectrum)).sum())),
        delta1=np.where(same_class & ~same_image, 1 - s**2, 0).sum(1).tolist(), delta2=d2.tolist(),
        deltak=np.where(~same_class, 1 - s**2, 0).sum(1).tolist(),
        alignment=float((np.where(same_image, 2 - 2 * s, 0)).sum() / (2 * len(z) ** 2)),
        diversity=float(np.linalg.norm(c - np.eye(d) / d) ** 2 / 2)))
print(json.dumps(cases, indent=1))
