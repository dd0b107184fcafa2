"""Writes statistics.json: t-intervals, p-values and rank correlations by SciPy, for the tests of package stats.

    python statistics.py        (needs numpy and scipy)
"""

import json
import pathlib
import warnings

import numpy as np
from scipy import stats

rng = np.random.default_rng(0)


def interval(sample):
    result = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
    return {"mean": np.mean(sample), "sd": np.std(sample, ddof=1), "low": result.low, "high": result.high}


def clean(value):
    """NaN is no JSON: null stands for it."""
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, (list, np.ndarray)):
        return [clean(item) for item in value]
    value = float(value)
    return None if np.isnan(value) else value


samples = []
for size in [2, 3, 3, 10, 40]:
    a = rng.normal(60, 2, size).round(3)
    samples.append({"a": a, "interval_a": interval(a), "p_shifted": stats.ttest_1samp(a - 59, 0).pvalue})

ranks = []
for x, y in [
    ([1, 2, 3, 4, 5], [62.7, 63.2, 83.5, 88.5, 89.8]),
    ([1, 2, 3, 4, 5], [67.8, 67.8, 82.0, 85.4, 86.9]),  # one tie
    ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]),
    ([1, 1, 2, 2, 3, 3], [4, 4, 4, 1, 1, 9]),  # ties in both
    ([1, 2, 3], [7, 7, 7]),  # constant: undefined
    (rng.normal(size=30).round(1), rng.normal(size=30).round(1)),
]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        ranks.append({"x": x, "y": y, "rho": stats.spearmanr(x, y).statistic})

path = pathlib.Path(__file__).with_name("statistics.json")
path.write_text(json.dumps({"samples": [clean(s) for s in samples], "ranks": [clean(r) for r in ranks]}, indent=1) + "\n")
