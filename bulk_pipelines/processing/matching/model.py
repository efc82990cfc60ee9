"""The model: weights of features, and the probability that a candidate is the right one.

It is a conditional logit: the candidates of a row and "none of them" share a probability of one. So of two candidates
that are equally good, neither gets more than a half.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.grams import Floats, Ints

STANDARD = Path(__file__).with_name("model.json")
STRONGEST = 30


@dataclass(frozen=True)
class Model:
    """Weights of features by name and a bias against "none of them"; the probability and the lead over the second that
    a match must have; and the floor below which a candidate is not worth a reviewer's look."""

    weights: Mapping[str, float]
    bias: float
    threshold: float
    margin: float
    floor: float

    @staticmethod
    @cache
    def standard() -> "Model":
        """Return the model that comes with the program; `make match-model` made its file."""
        stored = json.loads(STANDARD.read_text())
        return Model(**{name: stored[name] for name in ("weights", "bias", "threshold", "margin", "floor")})

    def strength(self, features: Floats) -> Floats:
        """Return what speaks for each pair, as a logarithm of odds against "none of them"."""
        weights = np.array([self.weights.get(name, 0) for name in FEATURES], np.float32)
        strength = (features * weights).sum(axis=1) + np.float32(self.bias)
        return np.asarray(np.clip(strength, -STRONGEST, STRONGEST), np.float32)


def probabilities(row: Ints, strength: Floats) -> Floats:
    """Return the probability of each pair; rows stand together."""
    _, group = np.unique(row, return_inverse=True)
    highest = np.zeros(group.max(initial=-1) + 1, np.float64)
    np.maximum.at(highest, group, strength)
    odds = np.exp(strength - highest[group])
    return np.asarray(odds / (np.bincount(group, odds) + np.exp(-highest))[group], np.float32)
