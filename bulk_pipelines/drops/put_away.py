"""Putting files away after their import: depending on how it went, a file is moved, deleted or left where it is. That
never happens before the import's job is over."""

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
"""The time after which the files that are left wait for the next tick, so that ticks also look for new files."""
PUT_AWAY_PATIENCE = 3_600.0
"""How many seconds after its job's end a file is still tried again that could not be put away because its storage was
unavailable."""

JOB_GONE = "its job was removed before the file was put away: nobody knows any more what came of it"


def clear_up(pool: Engine, source: DropSource, open_storage: Callable[[], Storage]) -> int:
    """Put away the files of jobs that are over, and return how many that were. Raise `Unavailable` when some are left
    to the next tick because the storage could not be reached."""
    ended = next_ended(pool, source)
    if not ended:
        return 0
    deadline = time.monotonic() + CLEAR_SECONDS
    cleared = 0
    with open_storage() as storage:
        while ended:
            outcomes = noted(pool, ended)
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
    """Put these files away until the deadline, but at least one. Return the last words on those that are done, and the
    error if the storage was unavailable for one. Such a file does not hold up the others."""
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


def noted(pool: Engine, ended: Sequence[Ended]) -> dict[int, Outcome]:
    """Return what the imports noted of these files, by the files' ids in the ledger."""
    with transaction(pool) as connection:
        return ledger.outcomes(connection, [file.drop_id for file in ended])


def put_away(source: DropSource, storage: Storage, file: Ended, outcome: Outcome) -> LastWord:
    """Put one file away, and return the last word on it. Doing it twice has the same result: a file that is gone, or is
    of another version by now, is left alone."""
    if file.job_key is None:
        return LastWord(file.drop_id, "FAILED", None, JOB_GONE, None)
    good = succeeded(file, outcome)
    folder = source.done_folder if good and source.after is After.MOVE else None if good else source.failed_folder
    delete = good and source.after is After.DELETE
    note = outcome.note if good else why_not(file, outcome)
    # The target has the job's key in it, so that a file of the same name never replaces an earlier one.
    target = f"{folder}/{file.job_key}/" if folder else None
    try:
        if target or delete:
            clear(source, storage, file, target)
    except BulkError as error:
        if isinstance(error, Unavailable) and file.seconds_since_end < PUT_AWAY_PATIENCE:
            raise
        note = f"{note or ''} it could not be put away: {error}".strip()
    status = "FAILED" if not good else "DUPLICATE" if outcome.duplicate else "DONE"
    return LastWord(file.drop_id, status, outcome.sha256, note, file.job_finished_at)


def succeeded(file: Ended, outcome: Outcome) -> bool:
    """Whether all of this one file was read. Its job may have gone well without it, or without some of its ranges."""
    left_out = outcome.note is not None and not outcome.duplicate
    return file.job_status in SUCCESS and not left_out and not file.dlq_items


def why_not(file: Ended, outcome: Outcome) -> str:
    """Say what is wrong with this file or, if nothing is known of it alone, what became of its import."""
    own = outcome.note or outcome.range_error
    if own is not None:
        return own
    told = file.last_error or f"its job is {file.job_status}"
    if file.files_of_job < 2:
        return told
    together = f"its import of {file.files_of_job} files is {file.job_status}"
    # Before an import has noted its files, its last error may be about another one of them.
    return f"{together}: {told}" if outcome.sha256 and file.job_status != "CANCELLED" else f"{together}: see its job"


def clear(source: DropSource, storage: Storage, file: Ended, target: str | None) -> None:
    """Move a file and its marker below the target, or delete them if there is none."""
    aside = f"{source.failed_folder}/{file.job_key}/" if file.failed_before and source.failed_folder else None
    if aside is not None and storage.exists(aside + file.path):
        if aside != target:
            clear_aside(source, storage, file, aside, target)
        return
    try:
        storage.take_away(file.path, file.version, target and target + file.path)
    except SourceChanged:
        return  # the marker stays too, because it may be that of the newer version
    except Missing:
        if storage.version_of(file.path) == file.version:
            raise  # what is missing is the place that it was to go to
        # Otherwise it was put away before, by this function or by a person.
    if source.marker:
        with suppress(Missing, SourceChanged):
            marker = storage.stat(file.path + source.marker)
            if not storage.exists(file.path):  # else the marker is for the file that lies there now
                storage.take_away(marker.key, marker.version, target and target + marker.key)


def clear_aside(source: DropSource, storage: Storage, file: Ended, aside: str, target: str | None) -> None:
    """Move a file and its marker out of the folder of failed files, or delete them there: the import was tried again
    and ended well. Nobody drops files into that folder, so their versions are not looked at."""
    for path in [f"{file.path}{source.marker}", file.path] if source.marker else [file.path]:
        with suppress(Missing):
            if target:
                storage.move(aside + path, target + path)
            else:
                storage.delete(aside + path)
