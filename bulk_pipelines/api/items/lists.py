"""Pages of a job's items: a request asks for one by a cursor, or by its number."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from bulk_pipelines.api.items.answers import count_of, item_json
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.items.pages import Page
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.words import item_states
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.report import grid

DEEPEST = 10_000
"""How many rows may stand before a page that is asked for by its number, because all of them are read. A page that is
asked for by a cursor may stand anywhere."""

Sort = Literal["updated", "row"]


@dataclass(frozen=True)
class Asked:
    """Which page of a job's items is asked for."""

    words: Sequence[str]
    sort: Sort
    size: int
    after: str | None
    number: int | None


def words_of(*given: Sequence[str] | None) -> list[str]:
    """Return the words of parameters that may be there several times, each with several words between commas."""
    return [word.strip() for each in given for text in each or () for word in text.split(",") if word.strip()]


def of_job(connection: Connection, job_key: str, owner: str | None, asked: Asked) -> dict[str, Any]:
    """Return a page of a job's items with their rows of the grid."""
    job = jobs.find(connection, job_key, owner)
    states = item_states(asked.words)
    if asked.sort == "row":
        if asked.words:
            raise InvalidInput("sort", "row shows the items in all states: leave statuses out, or sort by updated")
        read = partial(pages.in_order, connection, job_key)
    else:
        read = partial(pages.of_job, connection, job_key, statuses=states)
    after = asked.after
    left = before(asked)
    while left:
        skipped = read(size=min(left, pages.MOST), after=after)
        after, left = skipped.after, left - len(skipped.items)
        if after is None:
            return shown(connection, job, Page([], None), states)
    return shown(connection, job, read(size=asked.size, after=after), states)


def before(asked: Asked) -> int:
    """Return how many rows stand before the page."""
    if asked.number is None:
        return 0
    if asked.after is not None:
        raise InvalidInput("page", "does not go with after: give one of them")
    count = (asked.number - 1) * asked.size
    if count > DEEPEST:
        raise InvalidInput("page", f"has more than {DEEPEST:,} rows before it: go on by `next` and after")
    return count


def shown(connection: Connection, job: Job, page: Page, states: Sequence[ItemState]) -> dict[str, Any]:
    cells: dict[int, dict[str, str | None]] = {}
    if job.kind in KINDS and page.items:
        shape = grid.of_job(connection, job.job_key)
        cells = grid.cells_of(connection, shape, [row.item_id for row in page.items])
    return {
        "items": [{**item_json(row), "result": cells.get(row.item_id)} for row in page.items],
        "total": sum(count_of(job, state) for state in states),
        "next": page.after,
    }
