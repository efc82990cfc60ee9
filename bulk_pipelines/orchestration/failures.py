"""The failure of a run whose job failed, or ended with dead letters: the reason, and the first of the dead letters. The
failed runs are the dead letters as Dagster's UI shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dlq
from bulk_pipelines.engine.jobs.dlq import DeadLetter, Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.orchestration.runs import refused

LETTERS_SHOWN = 10
LONGEST_REASON = 300
LETTERS = dg.TableSchema(
    columns=[
        dg.TableColumn("item", "string"),
        dg.TableColumn("kind of error", "string"),
        dg.TableColumn("why", "string"),
        dg.TableColumn("attempts", "int"),
    ]
)


def has_failed(job: Job) -> bool:
    """Whether a run of the job fails: when the job failed, and when it ended with dead letters, whatever its kind makes
    of them. Items that were not found, and rejected records, are no dead letters."""
    if job.status is JobState.FAILED:
        return True
    return job.status in (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS) and bool(job.dlq_items)


def failure(context: dg.OpExecutionContext, pool: Engine, job: Job, report: Mapping[str, Any]) -> dg.Failure:
    """Return a failure that ends the run for good, because another automatic try would find the same. A person who
    executes the run again redrives the dead letters."""
    with transaction(pool) as connection:
        letters = dlq.page(connection, Wanted(job_key=job.job_key), LETTERS_SHOWN) if job.dlq_items else []
    return refused(context, reason(job, letters), {**report, **shown(job, letters)})


def reason(job: Job, letters: Sequence[DeadLetter]) -> str:
    """Say why the run fails in one line, which names the first dead letter. If something can be tried again, a second
    line says how."""
    if job.status is JobState.FAILED:
        said = f"job {job.job_key} failed: {job.last_error or 'no reason was recorded'}"
        if letters and letters[0].error_message not in said:  # the error of a job with one item is that item's
            said += f"; the first one is {words(letters[0])}"
    else:
        said = f"job {job.job_key} ended with dead letters: {job.dlq_items:,} of {counted(job.total_items, 'item')}"
        said += f"; the first one is {words(letters[0])}" if letters else "; retention has removed them"
    again = "\nExecute this run again, from the beginning or from failure, to try the dead letters again."
    return said + (again if letters else "")


def words(letter: DeadLetter) -> str:
    message = " ".join(letter.error_message.split())
    if len(message) > LONGEST_REASON:
        message = message[: LONGEST_REASON - 1] + "…"
    return f"{letter.item_key} ({letter.error_class}): {message}"


def shown(job: Job, letters: Sequence[DeadLetter]) -> Mapping[str, Any]:
    if not job.dlq_items:
        return {}
    records = [
        dg.TableRecord(
            {
                "item": letter.item_key,
                "kind of error": letter.error_class or "",
                "why": letter.error_message,
                "attempts": letter.attempt_count,
            }
        )
        for letter in letters
    ]
    return {
        "dead_letters": job.dlq_items,
        "first_dead_letters": dg.MetadataValue.table(records, LETTERS),
        "all_dead_letters": f"bulk dlq list --job {job.job_key}",
    }
