"""What an import shows to people: its figures, its first rejects, and how its batches went."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.counts import records_were
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.load.rejects import Rejected
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.progress import Progress
from bulk_pipelines.imports.report import picture

FIRST_REJECTS = 20
SHOWN_OF_RECORD = 200
FILES_SHOWN = 50
"""How many files the result of a job and the report name: an import may have thousands."""


@dataclass(frozen=True)
class Report:
    progress: Progress
    result: dict[str, Any]
    rejects: list[dict[str, str | int]]
    picture: str
    sources: list[str]


def report(pool: Engine, job: Job) -> Report:
    with transaction(pool) as connection:
        found = progress.read(connection, job.job_id)
        files = progress.files(connection, job.job_id)
        first = rejects.page(connection, job.job_id, limit=FIRST_REJECTS)
        batches = picture.batches(connection, job.job_id)
    return Report(
        found,
        job.result or {},
        [row_of(each) for each in first],
        picture.markdown(batches),
        named_sources(files),
    )


def worth_showing(files: list[ImportFile]) -> list[ImportFile]:
    """Choose the files to name, and return them in their order. Files that were left out are chosen first, then
    duplicates, then the others."""
    first = sorted(files, key=lambda file: (not file.left_out, not file.duplicate))[:FILES_SHOWN]
    return sorted(first, key=lambda file: file.number)


def named_sources(files: list[ImportFile]) -> list[str]:
    """Return the sources, each with its note if it has one, and at the end how many others there are."""
    shown = [file.as_outcome() for file in worth_showing(files)]
    said = [f"{each['source']}: {each['note']}" if each["note"] else each["source"] for each in shown]
    return said + ([f"{counted(len(files) - len(shown), 'other')}"] if len(files) > len(shown) else [])


def row_of(each: Rejected) -> dict[str, str | int]:
    record = each.raw[: SHOWN_OF_RECORD + 1].decode("utf-8", "replace")
    return {
        "line": each.line,
        "reasons": ", ".join(dict.fromkeys(str(reason["code"]) for reason in each.reasons)),
        "fields": ", ".join(dict.fromkeys(str(reason["field"]) for reason in each.reasons if reason.get("field"))),
        "record": record if len(record) <= SHOWN_OF_RECORD else record[:SHOWN_OF_RECORD] + "…",
    }


def balance(found: Progress, records: int) -> str | None:
    """Say what is wrong with the counts of an import that is over; return None if they add up. `records` is how many
    rejects are kept."""
    counts = found.counts
    accounted = counts.loaded + counts.rejected + counts.superseded + counts.valid
    if counts.waiting:
        return f"{records_were(counts.waiting)} never decided"
    if counts.read != accounted:
        return f"{records_were(counts.read)} read, and {accounted:,} accounted for"
    if records != counts.rejected:
        return f"{records_were(counts.rejected)} rejected, and {records:,} kept"
    return None
