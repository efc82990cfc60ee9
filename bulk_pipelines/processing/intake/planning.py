"""The rows of a job are persisted as its items, before any of them is worked. A plan that was cut short goes on where
it stopped: the number of the job's items says how far it came."""

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Generic, TypeVar

import psycopg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import faults, holding, namespaces, queries
from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchSizer
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.errors import BulkError, Conflict, InvalidInput, Transient, Unavailable
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.processing import types
from bulk_pipelines.processing.intake import collections, records, sources
from bulk_pipelines.processing.intake.rows import Row, Told, check_columns
from bulk_pipelines.processing.intake.sources import LandedSource
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.request import Format, ProcessingRequest
from bulk_pipelines.settings import Settings

log = logging.getLogger(__name__)

FETCHED = 5_000
Each = TypeVar("Each")
FIRST_BATCH = 1_000
ROWS_BETWEEN = 1_000
"""How many rows a plan persists before it asks again whether it must stop."""


def plan(pool: Engine, job: Job, stopping: Callable[[], bool] = lambda: False) -> Job:
    """Persist the rows of a job. `stopping` may cut the reading of a file short: then the job is not sealed, and
    another plan goes on."""
    request = ProcessingRequest.from_params(job.params)
    chosen = settings.current()
    load = types.find(request.recipe.type).load
    if load is not None:
        load(pool, request.recipe)
    try:
        if files_are_rows(request):
            return plan_collection(pool, job, request, chosen, stopping)
        if request.source:
            return plan_file(pool, job, request, chosen, stopping)
        return plan_query(pool, job, request)
    except Conflict as error:
        # The orphan of an earlier try, or a kick-off, may be planning the same job.
        with transaction(pool) as connection:
            found = jobs.find(connection, job.job_key)
        if found.planned_at is not None:
            return found
        if found.finished:
            raise
        raise Transient(str(error)) from None


def told_of(recipe: Recipe, wanted: Format | None, reading: Reading) -> Told:
    """Return what is known of the rows of a recipe before they are read."""
    columns = {*recipe.needs, *recipe.inputs, *types.find(recipe.type).reads(recipe)}
    return Told(wanted, reading, recipe.needs, frozenset(columns | templates.columns_within(recipe.options)))


def plan_file(
    pool: Engine, job: Job, request: ProcessingRequest, chosen: Settings, stopping: Callable[[], bool]
) -> Job:
    with transaction(pool) as connection:
        found = sources.noted(connection, job.job_id)
    if found is None:
        found = sources.land(request, job, chosen)
        with transaction(pool) as connection:
            sources.note(connection, job.job_id, found)
            found = sources.noted(connection, job.job_id) or found
    told = told_of(request.recipe, request.format, request.reading)
    told = replace(told, for_others=bool(request.version))  # a rule for dropped files is for any of them
    with sources.opened(found, chosen, told, pool) as rows:
        check_needs(request.recipe, rows.columns)
        with transaction(pool) as connection:
            sources.note(
                connection,
                job.job_id,
                LandedSource(found.source, found.landed, found.bytes, found.sha256, rows.format, rows.columns),
            )
            before = jobs.find(connection, job.job_key).total_items
        left = Until(itertools.islice(rows, before, None), stopping)
        sizer = BatchSizer.within(replace(limits_of(chosen.engine).ingest, start_rows=FIRST_BATCH))
        added = persist.copy_items(pool, job.job_id, records.items(left, before + 1), sizer, before=before)
    if left.stopped:
        with transaction(pool) as connection:
            return jobs.find(connection, job.job_key)
    if not added:
        raise InvalidInput("source", "the file has a header and no records")
    with transaction(pool) as connection:
        planned = jobs.seal(connection, job.job_id)
    clear_up(pool, job.job_id, found, chosen)
    return planned


def files_are_rows(request: ProcessingRequest) -> bool:
    """Whether the files of the source are the rows."""
    return bool(request.source) and types.find(request.recipe.type).files and collections.is_collection(request.source)


def plan_collection(
    pool: Engine, job: Job, request: ProcessingRequest, chosen: Settings, stopping: Callable[[], bool]
) -> Job:
    """Persist the files of a folder or an archive. An archive is landed, and its copy stays until the job is old,
    because its files are read when their rows are worked. After a crash a folder is listed again, and new files are
    added."""
    check_collection(request)
    sizer = BatchSizer.within(replace(limits_of(chosen.engine).ingest, start_rows=FIRST_BATCH))
    with transaction(pool) as connection:
        found = sources.noted(connection, job.job_id)
    if found is None:
        found = sources.landed_archive(request, job, chosen) if collections.is_archive(request.source) else None
        found = replace(found or sources.folder_source(request), columns=collections.COLUMNS)
        with transaction(pool) as connection:
            sources.note(connection, job.job_id, found)
            found = sources.noted(connection, job.job_id) or found
    with transaction(pool) as connection:
        before = jobs.find(connection, job.job_key).total_items
    if found.landed is None:
        # A listing has no lasting order, so a plan that stopped would begin anew each time. That is why it never stops.
        left = Until(collections.of_folder(request.source, chosen), lambda: False)
    else:
        files = collections.of_archive(found.landed, chosen, request.reading.member)
        left = Until(itertools.islice(files, before, None), stopping)
    persist.add_items(pool, job.job_id, left, sizer)
    with transaction(pool) as connection:
        planned = jobs.find(connection, job.job_key)
        if left.stopped:
            return planned
        if not planned.total_items:
            raise InvalidInput("source", "there are no files in it")
        return jobs.seal(connection, job.job_id)


def check_collection(request: ProcessingRequest) -> None:
    """Refuse options that tell how rows are read from a file, because here each file is a row."""
    fit = {"member"} if collections.is_archive(request.source) else set()
    for name in request.reading.as_params():
        if name not in fit:
            raise InvalidInput(name, "is for files with rows, and here each file is a row")


class Until(Generic[Each]):
    """Yields rows until somebody wants to stop. The first ones come in any case, so that each plan gets on."""

    def __init__(self, rows: Iterator[Each], stopping: Callable[[], bool]) -> None:
        self.rows = rows
        self.stopping = stopping
        self.stopped = False

    def __iter__(self) -> Iterator[Each]:
        for number, row in enumerate(self.rows):
            if number and number % ROWS_BETWEEN == 0 and self.stopping():
                self.stopped = True
                return
            yield row


def clear_up(pool: Engine, job_id: int, found: LandedSource, chosen: Settings) -> None:
    """Remove the landed copy, because all its records are items. If that fails, retention removes it later."""
    if found.landed is None:
        return
    with suppress(BulkError):
        sources.remove(found.landed, chosen)
        with transaction(pool) as connection:
            connection.execute(queries.text("processing", "landed_is_gone"), {"job_id": job_id})


def plan_query(pool: Engine, job: Job, request: ProcessingRequest) -> Job:
    """Persist the rows of a query. They come from one snapshot, which a second try would not see again, so one
    transaction writes all of them or none."""
    url = pool.url.render_as_string(hide_password=False)
    reader = pools.single(url, application="bulk intake")
    try:
        columns, rows = queried(reader, url, request.query)
        check_needs(request.recipe, columns)
        with transaction(pool) as connection:
            sources.note(connection, job.job_id, LandedSource("a query", None, 0, "", None, columns))
            added = persist.copy_all(connection, job.job_id, records.items(rows, 1))
            if not added:
                raise InvalidInput("query", "it returns no rows")
            return jobs.find(connection, job.job_key)
    except psycopg.Error as error:
        if reader.broken:
            raise
        # The transaction of the query only reads by our own choice: a query that writes is wrong.
        if faults.passes(error) and not isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            raise Unavailable(f"the query cannot be read: {pools.reason(error)}") from error
        raise InvalidInput("query", pools.reason(error)) from None
    finally:
        reader.close()


def queried(reader: Connection, url: str, query: str) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Return the columns and the rows of a query. The query can only read."""
    statement = query.strip().rstrip(";")
    reader.autocommit = False
    reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    reader.execute(holding.PATIENCE)
    with holding.held(url, f"SELECT FROM ({statement}\n) AS given"):
        namespaces.turn_to_theirs(reader)
        # Only one statement can be prepared, so nothing in the text can end the read-only transaction.
        described = reader.execute(f"SELECT * FROM ({statement}\n) AS given LIMIT 0".encode(), prepare=True)
    columns = tuple(each.name for each in described.description or ())
    if not columns:
        raise InvalidInput("query", "it returns no columns")
    check_columns(columns, "query")
    cursor = reader.cursor("bulk_rows")
    cursor.itersize = FETCHED
    cursor.execute(f"SELECT to_jsonb(given) FROM ({statement}\n) AS given".encode())
    return columns, (row for (row,) in cursor)


def check_needs(recipe: Recipe, columns: tuple[str, ...]) -> None:
    missing = [name for name in recipe.needs if columns and name not in columns]
    if missing:
        raise InvalidInput(
            "source",
            f"the recipe {recipe.name} needs the column {', '.join(missing)}; the source has {', '.join(columns[:50])}",
        )
