"""The grid: one row for each item, with the recipe's columns. It is read from the results of the items, and nothing is
computed again, so it can be had at any time. All its rows come from one snapshot."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.formats import parquet, xlsx
from bulk_pipelines.processing.intake import sources
from bulk_pipelines.processing.recipes.declaration import GridColumn, Source
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job
from bulk_pipelines.resources.declaration import Column

FETCHED = 2_000
LONGEST_SHOWN = 1_000
"""How many characters of a cell are shown on a page."""
DEFAULT_EVIDENCE = ("outcome", "id", "name", "score", "reason")

# An item that waits to be worked, or is worked again, may have the result of an earlier try, which is not shown.
OUTCOME = sql.SQL(
    "CASE item.status WHEN 'SUCCEEDED' THEN item.result ->> 'outcome' WHEN 'NOT_FOUND' THEN 'no match'"
    " WHEN 'SKIPPED' THEN 'skipped' WHEN 'DLQ' THEN 'failed' WHEN 'CANCELLED' THEN 'cancelled'"
    " WHEN 'RETRY_WAIT' THEN CASE item.error_class WHEN 'throttled' THEN 'throttled' ELSE 'open' END ELSE 'open' END"
)
SETTLED = sql.SQL("item.status IN ('SUCCEEDED', 'NOT_FOUND', 'SKIPPED', 'DLQ') AND jsonb_exists(item.result, 'grid')")


class GridFormat(StrEnum):
    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Grid:
    job: Job
    columns: tuple[GridColumn, ...]

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns as the writers of files know them. Every cell is text, as people see it."""
        return tuple(Column(each.header, ColumnKind.TEXT, "") for each in self.columns)


def of_job(connection: Connection, job_key: str) -> Grid:
    """Return the grid's shape. A recipe without columns shows those of the source, and the evidence."""
    job = processing_job(connection, job_key)
    recipe = recipe_of_job(job)
    if recipe.columns:
        return Grid(job, recipe.columns)
    found = sources.noted(connection, job.job_id)
    inputs = found.columns if found is not None else ()
    given = [GridColumn(name, Source.INPUT, name) for name in inputs]
    shown = [
        GridColumn(f"match {name}" if name in inputs else name, Source.EVIDENCE, name) for name in DEFAULT_EVIDENCE
    ]
    return Grid(job, tuple(given + shown))


def select(grid: Grid, *, first: int | None = None, outcomes: Sequence[str] = ()) -> sql.Composed:
    """Return the statement for the rows of the grid, in the order of the source: all of them, or those with these
    outcomes."""
    cells = sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(cell(each), sql.Identifier(f"column_{number}"))
        for number, each in enumerate(grid.columns)
    )
    wanted = sql.SQL("AND {} = ANY ({})").format(OUTCOME, sql.Literal(list(outcomes))) if outcomes else sql.SQL("")
    statement = sql.SQL("SELECT {} FROM job_item AS item WHERE item.job_id = {} {} ORDER BY item.item_key").format(
        cells, sql.Literal(grid.job.job_id), wanted
    )
    return statement if first is None else statement + sql.SQL(" LIMIT {}").format(sql.Literal(first))


def cell(column: GridColumn) -> sql.Composed:
    """Return the expression for one column: the cell in the item's result, or the source's value while there is no
    result."""
    if (column.source, column.key) == (Source.EVIDENCE, "outcome"):
        return sql.Composed([OUTCOME])
    shown = sql.SQL("item.result -> 'grid' ->> {}").format(sql.Literal(column.header))
    if column.source is Source.EVIDENCE:
        # The results of a recipe without columns have no cells, but they have evidence.
        kept = sql.SQL("item.result -> 'evidence' ->> {}").format(sql.Literal(column.key))
        shown = sql.SQL("coalesce({}, {})").format(shown, kept)
        if column.key == "reason":
            shown = sql.SQL("coalesce(item.error_message, {})").format(shown)
        return sql.SQL("CASE WHEN {} THEN {} END").format(SETTLED, shown)
    if column.source is Source.ANSWER:
        return sql.SQL("CASE WHEN {} THEN {} END").format(SETTLED, shown)
    given = sql.SQL("item.input ->> {}").format(sql.Literal(column.key))
    return sql.SQL("CASE WHEN {} AND jsonb_exists(item.result -> 'grid', {}) THEN {} ELSE {} END").format(
        SETTLED, sql.Literal(column.header), shown, given
    )


def first_rows(connection: Connection, grid: Grid, count: int) -> list[tuple[str | None, ...]]:
    return connection.execute(select(grid, first=count)).fetchall()


def cells_of(connection: Connection, grid: Grid, item_ids: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """Return the cells of some items, by their ids, as far as they can be shown on a page: long ones are shortened."""
    cells = sql.SQL(", ").join(
        sql.SQL("left({}, {})").format(cell(each), sql.Literal(LONGEST_SHOWN)) for each in grid.columns
    )
    statement = sql.SQL("SELECT item.item_id, {} FROM job_item AS item WHERE item.item_id = ANY (%s)").format(cells)
    headers = [each.header for each in grid.columns]
    return {
        item_id: dict(zip(headers, values, strict=True))
        for item_id, *values in connection.execute(statement, [list(item_ids)])
    }


def written(pool: Engine, job_key: str, chosen: GridFormat, outcomes: Sequence[str] = ()) -> Generator[bytes]:
    """Yield the grid, or its rows with these outcomes, as a file of this format, in constant memory."""
    with transaction(pool) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        grid = of_job(connection, job_key)
        if chosen is GridFormat.CSV:
            yield from as_csv(connection, grid, outcomes)
        elif chosen is GridFormat.XLSX:
            rows = batches(connection, grid, xlsx.schema(grid.declared), outcomes)
            yield from xlsx.written(job_key, grid.declared, rows)
        else:
            rows = batches(connection, grid, parquet.schema(grid.declared), outcomes)
            yield from parquet.written(grid.declared, rows)


def as_csv(connection: Connection, grid: Grid, outcomes: Sequence[str]) -> Iterator[bytes]:
    header = ",".join('"' + each.header.replace('"', '""') + '"' for each in grid.columns)
    yield header.encode() + b"\n"
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')").format(select(grid, outcomes=outcomes))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for data in copy:
            yield bytes(data)


def batches(connection: Connection, grid: Grid, schema: pa.Schema, outcomes: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with connection.cursor("grid") as cursor:
        cursor.itersize = FETCHED
        cursor.execute(select(grid, outcomes=outcomes))
        while rows := cursor.fetchmany(FETCHED):
            columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
