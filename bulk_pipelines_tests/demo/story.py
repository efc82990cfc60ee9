"""The chapters of the demo: each does something to a running installation, waits, and says what it came to."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes import drops
from bulk_pipelines_tests.scenes.drops import Box
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 240.0

USERS, ARTICLES, COMMENTS = 2_000, 1_000, 5_000
BAD_USERS, BAD_ARTICLES, BAD_COMMENTS = 20, 5, 50

LATE_DATA = """
INSERT INTO index_data (index_key, effective_date, asof_indicator, constituent, weight, close)
SELECT %s, '2024-01-01', 'CLS', 'PART' || number, 0.01, 100 + number FROM generate_series(1, 100) AS number
"""


class Line(NamedTuple):
    """A line of the table that the demo prints in the end."""

    what: str
    came_of_it: str
    seconds: int
    look_at: str


@dataclass(frozen=True)
class Story:
    place: Installation
    pool: Engine
    boxes: Sequence[Box]
    label: str
    """A text in the names of all that this run of the demo makes, so that another run makes its own."""
    folder: Path

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with transaction(self.pool) as connection:
            return connection.execute(query, values).fetchall()

    def bulk(self, *arguments: str) -> str:
        done = self.place.bulk(*arguments)
        assert done.returncode == 0, f"bulk {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}"
        return done.stdout

    def state(self, job: str) -> str:
        return str(self.rows("SELECT status::text FROM job WHERE job_key = %s", job)[0][0])


def drop(story: Story) -> list[Line]:
    """Drop three files into each box: first those that refer to the others."""
    began = time.monotonic()
    for box in story.boxes:
        name = f"{box.name}-{story.label}"
        box.drop(f"comments-{name}.json", drops.comments(name, COMMENTS, ARTICLES - BAD_ARTICLES, 100, BAD_COMMENTS))
        box.drop(f"articles-{name}.ndjson", drops.articles(name, ARTICLES, USERS - BAD_USERS, BAD_ARTICLES))
        box.drop(f"users-{name}.csv", drops.users(name, USERS, BAD_USERS))
    lines = []
    waiting = list(story.boxes)
    while waiting:
        until(lambda: any(is_over(story, box) for box in waiting), "the sensors have taken the files", PATIENCE)
        for box in [each for each in waiting if is_over(story, each)]:
            waiting.remove(box)
            lines.append(told(story, box, time.monotonic() - began))
    return lines


def is_over(story: Story, box: Box) -> bool:
    query = "SELECT count(*) FROM file_drop WHERE source = %s AND path LIKE %s AND ended_at IS NOT NULL"
    return story.rows(query, box.name, f"%{story.label}%") == [(3,)]


def told(story: Story, box: Box, seconds: float) -> Line:
    query = """
        SELECT sum((result->>'loaded')::int), sum((result->>'rejected')::int), min(job_key), count(*)
        FROM job JOIN file_drop USING (job_id) WHERE source = %s AND path LIKE %s
    """
    loaded, rejected, first, runs = story.rows(query, box.name, f"%{story.label}%")[0]
    return Line(
        f"3 files dropped into the {box.name}",
        f"{loaded:,} records loaded, {rejected:,} rejected, in {runs} runs",
        round(seconds),
        f"bulk import errors {first}",
    )


def export(story: Story) -> list[Line]:
    """Export all users to Parquet, and all articles to a spreadsheet."""
    lines = []
    for resource, format_ in (("users", "parquet"), ("articles", "xlsx")):
        began = time.monotonic()
        story.bulk("export", resource, "--format", format_, "--idempotency-key", f"{story.label}-{resource}")
        found = story.rows("SELECT result, job_key FROM job WHERE idempotency_key = %s", f"{story.label}-{resource}")
        result = found[0][0]
        lines.append(
            Line(
                f"{resource} exported to {format_}",
                f"{result['rows']:,} rows, {result['bytes'] / 1e6:.1f} MB",
                round(time.monotonic() - began),
                os.path.relpath(result["location"]),
            )
        )
    return lines


def distribute(story: Story) -> list[Line]:
    """Distribute one file for each input. One input has no data, so the job fails; it is redriven when the data has
    come."""
    late = f"LATE{story.label}".upper()
    request = json.loads(story.bulk("distribute", "sample", "--indexes", "50"))
    request["inputs"].append({"indexKey": late, "effectiveDate": "20240101", "asofindicator": "CLS"})
    path = story.folder / "request.json"
    path.write_text(json.dumps(request))
    began = time.monotonic()
    job = json.loads(story.bulk("distribute", "submit", str(path)))["jobId"]
    until(lambda: story.state(job) == "FAILED", "the job has failed for its input without data", PATIENCE)
    failed = round(time.monotonic() - began)
    answer = json.loads(story.bulk("distribute", "status", job))
    said = f"{files(answer)}; 1 input failed: it has no data"
    lines = [Line("files distributed", said, failed, f"bulk dlq list --job {job}")]
    with transaction(story.pool) as connection:
        connection.execute(LATE_DATA, [late])
    began = time.monotonic()
    story.bulk("dlq", "redrive", "--job", job)
    until(lambda: story.state(job) == "COMPLETED", "the redriven job is complete", PATIENCE)
    answer = json.loads(story.bulk("distribute", "status", job))
    return [
        *lines,
        Line(
            "its data came: redriven", files(answer), round(time.monotonic() - began), f"bulk distribute status {job}"
        ),
    ]


def files(answer: dict[str, Any]) -> str:
    return f"{answer['filesGenerated']} files written, {answer['filesReused']} reused"
