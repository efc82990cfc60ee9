"""After the import: files that were taken are left, moved or deleted, by how it went; never before it is over."""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.drops.ledger import Ended, LastWord
from bulk_pipelines.drops.sources import After, DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing

SUCCESS = {"COMPLETED", "COMPLETED_WITH_ERRORS"}
AT_A_TIME = 200
CLEAR_SECONDS = 10.0
"""After that long the rest is left to the next tick, which has new files to look at."""


def clear_up(pool: Engine, source: DropSource, open_storage: Callable[[], Storage]) -> int:
    """What is to be done with the files of jobs that are over; returns how many. A file that resists is tried again."""
    ended = next_ended(pool, source)
    if not ended:
        return 0
    deadline = time.monotonic() + CLEAR_SECONDS
    cleared = 0
    with open_storage() as storage:
        while ended:
            words = [put_away(source, storage, file) for file in ended]
            with transaction(pool) as connection:
                ledger.end(connection, words)
            cleared += len(words)
            ended = next_ended(pool, source) if time.monotonic() < deadline else []
    return cleared


def next_ended(pool: Engine, source: DropSource) -> list[Ended]:
    with transaction(pool) as connection:
        return ledger.ended(connection, source.name, AT_A_TIME)


def put_away(source: DropSource, storage: Storage, file: Ended) -> LastWord:
    """Doing it twice comes to the same: what is gone, or another version by now, is left alone."""
    outcome = outcome_of(file, storage.url_of(file.path))
    good = file.job_status in SUCCESS
    folder = source.done_folder if good and source.after is After.MOVE else None if good else source.failed_folder
    delete = good and source.after is After.DELETE
    note = outcome.get("note") or (None if good else file.last_error or f"its job is {file.job_status}")
    try:
        if (folder or delete) and storage.stat(file.path).version == file.version:
            if folder:
                # Below the job's key, so that a file of the same name never replaces an earlier one.
                storage.move(file.path, f"{folder}/{file.job_key}/{file.path}")
            else:
                storage.delete(file.path)
    except Missing:
        pass  # moved before, by this function or by a person
    except BulkError as error:
        note = f"{note or ''} it could not be put away: {error}".strip()
    status = "FAILED" if not good else "DUPLICATE" if outcome.get("duplicate") else "DONE"
    return LastWord(file.drop_id, status, outcome.get("sha256"), note)


def outcome_of(file: Ended, url: str) -> dict[str, Any]:
    """What the import says of this one file."""
    files = (file.result or {}).get("files", [])
    return next((each for each in files if each.get("source") == url), {})
