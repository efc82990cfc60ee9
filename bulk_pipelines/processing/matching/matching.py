"""The matcher's function: `match` matches a batch of queries with a reference."""

from collections.abc import Sequence

from bulk_pipelines.processing.matching import scoring
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.results import Result

BATCH = 2_500
"""Queries that are compared at once: more of them want more memory, and are not faster."""


def match(index: Index, queries: Sequence[Query], model: Model | None = None) -> list[Result]:
    """Return the verdict on each query. It does not depend on the other queries of the batch."""
    model = model or Model.standard()
    return [
        result
        for start in range(0, len(queries), BATCH)
        for result in scoring.results(scoring.score(index, queries[start : start + BATCH], model), model)
    ]
