"""The requests of a job, counted: to which provider they went, what was answered, and how long they had to wait."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.worker.counting import Sums

NO_ANSWER, PUT_OFF = "no answer", "put off"
"""What stands for a status where there is none: nothing came back in time, or nothing was sent."""


@dataclass(frozen=True)
class RequestsMade:
    """The requests of a job to one provider that were answered with one status."""

    provider: str
    status: str
    requests: int
    waited_seconds: float
    """How long they waited for their turn."""
    throttled_seconds: float
    """The seconds in which nobody could ask the provider because of the answers to these requests."""


def write(connection: Connection, job_id: int, sums: Sums) -> None:
    """Add what a worker has counted to what is known of its job."""
    ordered = sorted(sums.items())
    columns = list(zip(*(amounts for _, amounts in ordered), strict=True))
    values = {
        "job_id": job_id,
        "providers": [names[0] for names, _ in ordered],
        "statuses": [names[1] for names, _ in ordered],
        "requests": [int(each) for each in columns[0]],
        "waited": list(columns[1]),
        "throttled": list(columns[2]),
    }
    connection.execute(queries.text("providers", "add_requests"), values)


def of_job(connection: Connection, job_id: int) -> list[RequestsMade]:
    with connection.cursor(row_factory=class_row(RequestsMade)) as cursor:
        return cursor.execute(queries.text("providers", "requests_of_job"), {"job_id": job_id}).fetchall()


def by_provider(made: Sequence[RequestsMade]) -> Mapping[str, Mapping[str, int]]:
    """Return the numbers of requests by provider and status."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for each in made:
        found[each.provider][each.status] = each.requests
    return dict(found)
