"""The rows of a job that a reviewer looks at, a page at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput, NotFound
from bulk_pipelines.processing.results import Candidate, Outcome
from bulk_pipelines.processing.submission import processing_job

MOST = 1_000
REVIEWED = (Outcome.AMBIGUOUS, Outcome.MATCHED)


@dataclass(frozen=True)
class Row:
    """A row with what was found of it."""

    item_key: str
    row: Mapping[str, Any]
    """The row as the source has it."""
    outcome: str
    reason: str | None
    lead: float | None
    matched_with: str | None
    """The id of the entry, which a reviewer may have chosen from outside the candidates."""
    candidates: Sequence[Candidate]
    """The best first, with the values that the grid would show."""
    decision: str | None
    decided_by: str | None
    rejected: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return vars(self) | {"candidates": [each.as_json() for each in self.candidates]}


def page(
    connection: Connection,
    job_key: str,
    *,
    outcome: str = Outcome.AMBIGUOUS,
    after: str = "",
    size: int = 100,
    owner: str | None = None,
) -> list[Row]:
    """Return a page of the rows with this outcome, in the order of the source: those behind the row `after`."""
    if outcome not in REVIEWED:
        raise InvalidInput("outcome", f"{outcome!r} is none of {', '.join(REVIEWED)}")
    job = processing_job(connection, job_key, owner)
    values = {
        "job_id": job.job_id,
        "outcome": str(outcome),
        "after": after and payload.text("after", after),
        "size": payload.size("size", size, MOST),
    }
    rows = connection.execute(queries.text("reviews", "rows_to_review"), values)
    return [of_item(*row) for row in rows]


def one(connection: Connection, job_key: str, item_key: str, owner: str | None = None) -> Row:
    """Return one row that was looked up, whatever came of it."""
    job = processing_job(connection, job_key, owner)
    values = {"job_id": job.job_id, "item_key": payload.text("row", item_key)}
    found = connection.execute(queries.text("reviews", "row_to_review"), values).fetchone()
    if found is None:
        raise NotFound(f"job {job_key} has no row {item_key!r} that was looked up")
    return of_item(*found)


def of_item(item_key: str, row: Mapping[str, Any], result: Mapping[str, Any]) -> Row:
    evidence = result["evidence"]
    return Row(
        item_key,
        row,
        result["outcome"],
        evidence.get("reason"),
        evidence.get("lead"),
        evidence.get("id"),
        tuple(Candidate.of_json(each) for each in evidence.get("candidates") or ()),
        evidence.get("decision"),
        evidence.get("decided_by"),
        tuple(evidence.get("rejected") or ()),
    )
