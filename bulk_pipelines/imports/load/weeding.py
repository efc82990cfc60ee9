"""Finding the values of a batch that PostgreSQL cannot read, or would round or cut, before the batch is written row by
row.

Only texts that have not the plain form of their kind are sent: into a temporary table, where PostgreSQL tries to read
each of them. The records that have any such value are rejected with PostgreSQL's own words.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
from psycopg import sql

from bulk_pipelines.columns import arrow, binary_copy
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import losses
from bulk_pipelines.imports.records.parsed import Reason, shown
from bulk_pipelines.imports.validate import validation
from bulk_pipelines.imports.validate.validation import Reject, Validated
from bulk_pipelines.resources.declaration import Column

JUDGED = sql.Identifier("pg_temp", "judged")
SOFT_SINCE = 160_000
"""The first version of PostgreSQL that can say what is wrong with a value without an error."""
TOO_LONG = "22001"
"""PostgreSQL's code for a text that its column would cut."""

# The input functions of some types, which extensions bring, raise errors all the same, so that these are caught.
FUNCTION = """
CREATE FUNCTION pg_temp.input_fault(given text, wanted text, OUT message text, OUT sql_error_code text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT CAST(%L AS %s)', given, wanted);
EXCEPTION WHEN data_exception OR invalid_parameter_value OR syntax_error_or_access_rule_violation
    OR integrity_constraint_violation OR raise_exception OR program_limit_exceeded OR feature_not_supported THEN
    message := SQLERRM;
    sql_error_code := SQLSTATE;
END
$$
"""
KNOWN = frozenset(
    {"smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean", "text", "character varying"}
    | {"date", "time without time zone", "time with time zone", "timestamp without time zone"}
    | {"timestamp with time zone", "interval", "uuid", "json", "jsonb", "bytea", "inet", "cidr"}
)
"""Types whose input functions are known to raise no errors when they are asked what is wrong."""


def weeded(connection: Connection, context: ImportContext, validated: Validated) -> Validated:
    """Return the batch without the rows that have values which PostgreSQL cannot read, or would not keep whole."""
    if not validated.unread or not len(validated.lines):
        return validated
    reasons: dict[int, list[Reason]] = defaultdict(list)
    lay_out(connection, validated)
    with namespaces.theirs(connection):
        for place, name in enumerate(validated.unread):
            column = context.resource.column(name)
            for number, reason in faults(connection, column, place):
                reasons[number].append(reason)
    connection.execute(sql.SQL("DROP TABLE {}").format(JUDGED))
    if not reasons:
        return validated
    bad = sorted(reasons)
    keep = np.ones(len(validated.lines), dtype=bool)
    keep[bad] = False
    rejected = [
        Reject(int(validated.lines[row]), validated.block.raw(int(validated.records[row])), reasons[row]) for row in bad
    ]
    good = pa.array(keep)
    return validation.made(
        context,
        replace(
            validated,
            good=validated.good.filter(good).combine_chunks(),
            given=None if validated.given is None else validated.given.filter(good).combine_chunks(),
            records=validated.records[keep],
            lines=validated.lines[keep],
            rejects=sorted([*validated.rejects, *rejected], key=lambda each: each.line),
        ),
    )


def lay_out(connection: Connection, validated: Validated) -> None:
    """Put the texts into a temporary table, with the numbers of their rows."""
    columns = {f"c{place}": arrow.column(validated.good, name) for place, name in enumerate(validated.unread)}
    connection.execute(
        sql.SQL("CREATE TEMP TABLE judged (number bigint, {}) ON COMMIT DROP").format(
            sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in columns)
        )
    )
    columns["number"] = pa.array(np.arange(len(validated.lines)), pa.int64())
    binary_copy.copy(connection, JUDGED, binary_copy.encode(columns))


def faults(connection: Connection, column: Column, place: int) -> list[tuple[int, Reason]]:
    """Return what is wrong with the values of a column, by the numbers of their rows."""
    given, base, exact = sql.Identifier("j", f"c{place}"), column.base_type, column.exact_type
    ask = sql.SQL("pg_input_error_info({}, {})")
    if connection.info.server_version < SOFT_SINCE or base.removesuffix("[]") not in KNOWN:
        connection.execute("DROP FUNCTION IF EXISTS pg_temp.input_fault(text, text)")
        connection.execute(FUNCTION)
        ask = sql.SQL("pg_temp.input_fault({}, {})")
    query = sql.SQL(
        "SELECT number, {given}, f.message, f.sql_error_code FROM {} j, LATERAL {ask} f"
        " WHERE {given} IS NOT NULL AND f.message IS NOT NULL"
    ).format(JUDGED, given=given, ask=ask.format(given, exact))
    found = [
        (number, Reason("does_not_fit" if code == TOO_LONG else column.code, column.name, shown(value), shown(message)))
        for number, value, message, code in connection.execute(query, prepare=False)
    ]
    lost = losses.condition(connection, exact, given)
    if lost is not None:
        found += lossy(connection, column, given, lost, {number for number, _ in found})
    return found


def lossy(
    connection: Connection, column: Column, given: sql.Composable, lost: sql.Composable, unreadable: set[int]
) -> list[tuple[int, Reason]]:
    """Return the values of which the column would lose a part."""
    # Only CASE makes sure that PostgreSQL does not read the others first.
    query = sql.SQL(
        "SELECT number, {given} FROM {} j WHERE CASE WHEN {given} IS NOT NULL AND number <> ALL (%s) THEN {lost} END"
    ).format(JUDGED, given=given, lost=lost)
    detail = f"{column.exact_type} would not keep it whole"
    return [
        (number, Reason("does_not_fit", column.name, shown(value), detail))
        for number, value in connection.execute(query, [list(unreadable)], prepare=False)
    ]
