"""Writes classifier.json: weighted k-NN predictions, and all classes by their votes, from scikit-learn's exact cosine neighbours, in float64.

Run: python classifier.py   (needs scikit-learn and numpy)
"""
import json

import numpy as np
from sklearn.neighbors import NearestNeighbors

rng = np.random.default_rng(0)
classes, k, temperature = 5, 30, 0.1
centres = rng.normal(size=(classes, 6))
labels = rng.integers(classes, size=120)
bank = np.round(centres[labels] + 1.5 * rng.normal(size=(120, 6)), 3).astype(np.float32)
queries = np.round(centres[rng.integers(classes, size=40)] + 1.5 * rng.normal(size=(40, 6)), 3).astype(np.float32)
distance, nearest = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(bank.astype(float)).kneighbors(queries.astype(float))
votes = np.zeros((len(queries), classes))
for query in range(len(queries)):
    np.add.at(votes[query], labels[nearest[query]], np.exp((1 - distance[query]) / temperature))
with open("classifier.json", "w") as f:
    json.dump({"K": k, "Temperature": temperature, "Bank": bank.tolist(), "Queries": queries.tolist(),
               "Labels": labels.tolist(), "Predictions": votes.argmax(1).tolist(),
               "Ranked": np.argsort(-votes, axis=1, kind="stable").tolist()}, f)
