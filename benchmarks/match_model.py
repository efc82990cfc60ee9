"""Fits the matcher's model on half of the brands and writes `model.json`. `make match-model`.

For a fifth of the rows the right entry is taken away from the candidates, so that the model also learns what it looks
like when a reference does not have what a row names.
"""

import json
import sys

import numpy as np

from benchmarks import brands
from bulk_pipelines.processing.matching import candidates, index, training
from bulk_pipelines.processing.matching.comparing import Compared
from bulk_pipelines.processing.matching.features import features
from bulk_pipelines.processing.matching.model import STANDARD

ABSENT, SEED = 0.2, 20260918
FIXED = {"host": 4.0}
"""Set by hand, because no name of the brands comes with a website."""


def fit() -> None:
    data = brands.load()
    known = index.build(data.entries)
    named = [each for each in data.names if each.fitted]
    queries = [each.query for each in named]
    names = candidates.names_of(queries)
    pairs = candidates.find(known, queries, names)
    compared = features(Compared(known, queries, names, pairs))
    ids = known.entries["id"].take(pairs.entry).to_pylist()
    right = np.array(
        [data.is_right(named[row].name, each) for row, each in zip(pairs.row.tolist(), ids, strict=True)], np.bool_
    )
    absent = np.random.default_rng(SEED).random(len(queries)) < ABSENT
    kept = ~(absent[pairs.row] & right)
    weights, bias = training.fit(pairs.row[kept], compared[kept], right[kept], FIXED)
    stored = {
        "made_by": "make match-model",
        "fitted_on": f"{len(queries)} names of brands and operators, {ABSENT:.0%} of them without their right entry",
        "threshold": 0.5,
        "margin": 0.1,
        "floor": 0.1,
        "bias": round(bias, 4),
        "weights": {name: round(weight, 4) for name, weight in weights.items()},
    }
    STANDARD.write_text(json.dumps(stored, indent=2) + "\n")
    print(STANDARD.read_text(), file=sys.stderr)
