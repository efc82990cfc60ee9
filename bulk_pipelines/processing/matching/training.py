"""How a model is made from pairs that are known to be right or wrong."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.grams import Floats, Ints

Reals = npt.NDArray[np.float64]


FREE = frozenset({"length", "length_gap", "foreign"})
"""Features of which nobody can say whether they speak for a candidate or against it."""
AGAINST = frozenset({"doubles"})
SHRINK = 1e-4


def fit(
    row: Ints, features: Floats, right: npt.NDArray[np.bool_], fixed: Mapping[str, float]
) -> tuple[dict[str, float], float]:
    """Return the weights and the bias under which the right candidates, or none where none is right, are likeliest.

    Weights are drawn towards zero by `SHRINK`, on features of equal spread. No weight has a sign that would surprise a
    person: likeness never speaks against a candidate. A feature that never varies gets no weight; `fixed` names weights
    that are taken as they are.
    """
    names, offset = list(FEATURES), features[:, 0] * 0.0
    for name, weight in fixed.items():
        offset = offset + weight * features[:, names.index(name)]
    spread = features.std(axis=0)
    used = [place for place, name in enumerate(names) if spread[place] > 0 and name not in fixed]
    scaled = features[:, used].astype(np.float64) / spread[used]
    _, group = np.unique(row, return_inverse=True)
    likelihood = _Likelihood(group, scaled, right.astype(np.float64), offset.astype(np.float64))
    bounds = [*(_bounds(names[place]) for place in used), (None, None)]
    start = np.zeros(len(used) + 1)
    found = minimize(likelihood, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 1000}).x
    weights = {names[place]: float(found[at] / spread[place]) for at, place in enumerate(used)}
    return {**weights, **fixed}, float(found[-1])


def _bounds(name: str) -> tuple[float | None, float | None]:
    if name in FREE:
        return None, None
    return (None, 0) if name in AGAINST else (0, None)


class _Likelihood:
    """The negative logarithm of the likelihood of what is right, and its slope."""

    def __init__(self, group: Ints, features: Reals, right: Reals, offset: Reals) -> None:
        self.group, self.features, self.right, self.offset = group, features, right, offset
        self.groups = int(group.max()) + 1
        self.answered = np.bincount(group, right, self.groups) > 0

    def __call__(self, point: Reals) -> tuple[float, Reals]:
        weights, bias = point[:-1], point[-1]
        strength = self.features @ weights + bias + self.offset
        highest = np.zeros(self.groups)
        np.maximum.at(highest, self.group, strength)
        odds = np.exp(strength - highest[self.group])
        none = np.exp(-highest)
        total = np.bincount(self.group, odds, self.groups) + none
        probability = odds / total[self.group]
        likely = np.bincount(self.group, probability * self.right, self.groups)
        hit = np.maximum(np.where(self.answered, likely, none / total), 1e-12)
        share = np.where(self.right > 0, probability / np.maximum(likely, 1e-12)[self.group], 0)
        slope = (probability - share) / self.groups
        loss = -float(np.log(hit).mean()) + SHRINK * float(weights @ weights) / 2
        return loss, np.append(self.features.T @ slope + SHRINK * weights, slope.sum())
