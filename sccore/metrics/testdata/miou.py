"""Writes miou.json: torchmetrics' scores of made-up segmentations.

Run: python miou.py   (needs torch, torchmetrics and numpy)
"""
import json

import numpy as np
import torch
from torchmetrics.classification import MulticlassJaccardIndex

rng = np.random.default_rng(0)
classes, ignore = 7, 255
truth = rng.integers(5, size=(3, 6, 8))  # No pixel is of class 5 or 6.
truth[0][truth[0] == 2] = 3  # Class 2 is absent from the first image.
prediction = np.where(rng.random(truth.shape) < 0.6, truth, rng.integers(6, size=truth.shape))  # Class 5 is predicted, 6 is not.
truth[rng.random(truth.shape) < 0.1] = ignore


def scores(average):
    metric = MulticlassJaccardIndex(classes, average=average, ignore_index=ignore)
    for t, p in zip(truth, prediction):
        metric.update(torch.tensor(p)[None], torch.tensor(t)[None])
    return metric.compute().double()


judged = truth != ignore
with open("miou.json", "w") as f:
    json.dump({"Classes": classes, "Truth": truth.flatten().tolist(), "Prediction": prediction.flatten().tolist(), "IoU": scores(None).tolist(),
               "MIoU": scores("macro").item(), "Accuracy": (truth == prediction)[judged].mean()}, f)
