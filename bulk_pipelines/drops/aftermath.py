"""After the import: files that were taken are left, moved or deleted, by how it went; never before it is over."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.drops.ledger import Ended, LastWord, Outcome
from bulk_pipelines.drops.sources import After, DropSource
from bulk_pipelines.errors import BulkError, Unavailable
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing, SourceChanged

SUCCESS = {"COMPLETED", "COMPLETED_WITH_ERRORS"}
AT_A_TIME = 200
CLEAR_SECONDS = 10.0
"""After that long the rest is left to the next tick, which has new files to look at."""
PUT_AWAY_PATIENCE = 3_600.0
"""For how long after its job's end a file is tried to be put away that the storage cannot just now."""

JOB_GONE = "its job was removed before the file was put away: nobody knows any more what came of it"


def clear_up(pool: Engine, source: DropSource, open_storage: Callable[[], Storage]) -> int:
    """What is to be done with the files of jobs that are over; returns how many. `Unavailable` when some were left to
    the next tick because the storage could not be reached."""
    ended = next_ended(pool, source)
    if not ended:
        return 0
    deadline = time.monotonic() + CLEAR_SECONDS
    cleared = 0
    with open_storage() as storage:
        while ended:
            outcomes = noted(pool, storage, ended)
            words, problem = put_away_in_time(source, storage, ended, outcomes, deadline)
            with transaction(pool) as connection:
                ledger.end(connection, words)
            cleared += len(words)
            if problem:
                raise problem
            ended = next_ended(pool, source) if time.monotonic() < deadline else []
    return cleared


def put_away_in_time(
    source: DropSource, storage: Storage, ended: Sequence[Ended], outcomes: Mapping[int, Outcome], deadline: float
) -> tuple[list[LastWord], Unavailable | None]:
    """At least one, or why not. A file that resists does not keep the others where they are."""
    words: list[LastWord] = []
    problem = None
    for number, file in enumerate(ended):
        if number and time.monotonic() >= deadline:
            break
        try:
            words.append(put_away(source, storage, file, outcomes.get(file.drop_id, Outcome())))
        except Unavailable as error:
            problem = error
    return words, problem


def next_ended(pool: Engine, source: DropSource) -> list[Ended]:
    with transaction(pool) as connection:
        return ledger.ended(connection, source.name, AT_A_TIME)


def noted(pool: Engine, storage: Storage, ended: Sequence[Ended]) -> dict[int, Outcome]:
    """What their imports say of each of these files."""
    with transaction(pool) as connection:
        return ledger.outcomes(connection, {file.drop_id: storage.url_of(file.path) for file in ended})


def put_away(source: DropSource, storage: Storage, file: Ended, outcome: Outcome) -> LastWord:
    """Doing it twice comes to the same: what is gone, or another version by now, is left alone."""
    if file.job_key is None:
        return LastWord(file.drop_id, "FAILED", None, JOB_GONE)
    good = succeeded(file, outcome)
    folder = source.done_folder if good and source.after is After.MOVE else None if good else source.failed_folder
    delete = good and source.after is After.DELETE
    note = outcome.note if good else why_not(file, outcome)
    # Below the job's key, so that a file of the same name never replaces an earlier one.
    target = f"{folder}/{file.job_key}/" if folder else None
    try:
        if target or delete:
            clear(source, storage, file, target)
    except BulkError as error:
        if isinstance(error, Unavailable) and file.seconds_since_end < PUT_AWAY_PATIENCE:
            raise
        note = f"{note or ''} it could not be put away: {error}".strip()
    status = "FAILED" if not good else "DUPLICATE" if outcome.duplicate else "DONE"
    return LastWord(file.drop_id, status, outcome.sha256, note)


def succeeded(file: Ended, outcome: Outcome) -> bool:
    """All of this one file was read. Its job may have gone well without it, or without some of its ranges."""
    left_out = outcome.note is not None and not outcome.duplicate
    return file.job_status in SUCCESS and not left_out and not file.dlq_items


def why_not(file: Ended, outcome: Outcome) -> str:
    """What is wrong with this file; if it is nothing that is known, what became of its import."""
    own = outcome.note or outcome.range_error
    if own is not None:
        return own
    told = file.last_error or f"its job is {file.job_status}"
    if file.files_of_job < 2:
        return told
    together = f"its import of {file.files_of_job} files is {file.job_status}"
    # Before an import has noted its files, what it says last may be about another one of them.
    return f"{together}: {told}" if outcome.sha256 and file.job_status != "CANCELLED" else f"{together}: see its job"


def clear(source: DropSource, storage: Storage, file: Ended, target: str | None) -> None:
    """Move the file, and its marker, below the target; or delete them, without one."""
    aside = f"{source.failed_folder}/{file.job_key}/" if file.failed_before and source.failed_folder else None
    if aside is not None and storage.exists(aside + file.path):
        if aside != target:
            clear_aside(source, storage, file, aside, target)
        return
    try:
        storage.take_away(file.path, file.version, target and target + file.path)
    except SourceChanged:
        return  # and the marker may be that of the newer version
    except Missing:
        pass  # put away before, by this function or by a person
    if source.marker:
        with suppress(Missing, SourceChanged):
            marker = storage.stat(file.path + source.marker)
            if not storage.exists(file.path):  # else it is the marker of what lies there now
                storage.take_away(marker.key, marker.version, target and target + marker.key)


def clear_aside(source: DropSource, storage: Storage, file: Ended, aside: str, target: str | None) -> None:
    """From the folder of failed files, where nobody drops any: its import was tried again and ended well."""
    for path in [f"{file.path}{source.marker}", file.path] if source.marker else [file.path]:
        with suppress(Missing):
            if target:
                storage.move(aside + path, target + path)
            else:
                storage.delete(aside + path)
