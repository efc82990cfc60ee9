"""A small picture of an import's batches: the rows and the seconds of each one, in the order they were written."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from bulk_pipelines.counted import counted
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection

WIDTH, HEIGHT, EDGE = 520, 160, 28
MOST_POINTS = 400
ROWS_COLOUR, SECONDS_COLOUR, TEXT_COLOUR = "#4f46e5", "#b45309", "#6b7280"


@dataclass(frozen=True)
class Batch:
    rows: int
    seconds: float


def batches(connection: Connection, job_id: int) -> list[Batch]:
    """Return the batches in which records were loaded, without those in which the import's items were written."""
    rows = connection.execute(queries.text("import_progress", "batch_steps"), {"job_id": job_id}).fetchall()
    return [Batch(*row) for row in rows]


def markdown(found: Sequence[Batch]) -> str:
    if len(found) < 2:
        return f"one batch of {counted(found[0].rows, 'row')} in {found[0].seconds:.2f} s" if found else "no batches"
    encoded = base64.b64encode(svg(found).encode()).decode()
    return f"![rows and seconds of each batch](data:image/svg+xml;base64,{encoded})"


def svg(found: Sequence[Batch]) -> str:
    shown = thinned(found)
    rows, seconds = [batch.rows for batch in shown], [batch.seconds for batch in shown]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="{TEXT_COLOUR}">'
        f'<text x="4" y="14" fill="{ROWS_COLOUR}">rows a batch, at most {max(rows):,}</text>'
        f'<text x="{WIDTH - 4}" y="14" fill="{SECONDS_COLOUR}" text-anchor="end">'
        f"seconds a batch, at most {max(seconds):.2f}</text>"
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 4}" text-anchor="middle">{len(found)} batches</text>'
        f"{line(rows, ROWS_COLOUR)}{line(seconds, SECONDS_COLOUR)}</svg>"
    )


def thinned(found: Sequence[Batch]) -> Sequence[Batch]:
    step = max(1, -(-len(found) // MOST_POINTS))
    return found[::step]


def line(values: Sequence[float], colour: str) -> str:
    top = max(values) or 1
    wide = (WIDTH - 2 * EDGE) / max(len(values) - 1, 1)
    high = HEIGHT - 2 * EDGE
    points = " ".join(
        f"{EDGE + n * wide:.1f},{HEIGHT - EDGE - value / top * high:.1f}" for n, value in enumerate(values)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
