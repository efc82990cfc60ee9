"""The page of all metrics, made from their declarations."""

from collections.abc import Iterable

from bulk_pipelines.api.metrics.catalogue import LOOKED_UP
from bulk_pipelines.engine.measures.catalogue import KEPT, Metric


def page(notice: str) -> str:
    text = [
        "# Metrics",
        notice,
        "What `/metrics` tells Prometheus; [observing.md](observing.md) says how it is made.",
        "## Looked up when Prometheus asks",
        table(LOOKED_UP),
        "## Measured by the processes, and kept in the database",
        "A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`.",
        table(KEPT),
    ]
    return "\n\n".join(text) + "\n"


def table(metrics: Iterable[Metric]) -> str:
    rows = [
        f"| `{each.name}` | {each.form} | {', '.join(f'`{label}`' for label in each.labels)} | {each.doc} |"
        for each in metrics
    ]
    return "\n".join(["| metric | type | labels | what it says |", "| --- | --- | --- | --- |", *rows])
