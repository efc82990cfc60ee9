"""How PostgreSQL tells that a type would lose a part of a text: digits, times of day, offsets, characters, signs.

A type may be made of others: arrays, ranges, composite types, and domains over any of them. Then the text is taken
apart, inside PostgreSQL, and each part is asked for.
"""

import re

from psycopg import sql
from psycopg.sql import Composable

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.resources.declaration import Resource, without_precision

DATE = r"\dT|([-/.])\w+\1\d"
"""What tells that a date stands before or behind a time of day. The parts of a date have the same sign between them; a
fraction of a second has a point before it, and may have an offset behind it."""
HALF = "0.5::numeric::money::text"
LOSSES = {
    # A date may be infinite, or behind the last time that a timestamp knows.
    "date": "CASE WHEN {given} ~ ':|\\dT' AND {given}::date BETWEEN '4713-01-01 BC' AND '294276-12-31'"
    " THEN {given}::timestamp <> {given}::date END",
    "timestamp without time zone": "{given}::timestamptz AT TIME ZONE 'UTC' <> {given}::timestamp",
    "time without time zone": f"{{given}} ~* '[+-][0:]*[1-9]|/|{DATE}'",
    "time with time zone": f"{{given}} ~* '{DATE}'",
    "money": rf"length(rtrim(substring({{given}} FROM '[' || substring({HALF} FROM '\D(?=5)') || '](\d+)'), '0'))"
    rf" > length(substring({HALF} FROM '5\d*'))",
    "name": "{given}::name::text <> {given}",
    '"char"': '{given}::"char"::text <> {given}',
    "oid": "{given} ~ '-'",
}
"""What types lose that have no precision, and what others lose beside it."""
TIMES = re.compile(r"(time|timestamp|interval)\b")
DIGITS = 6
"""How many digits of a second PostgreSQL keeps; it rounds what is finer."""

# A part of the text of a range or of a composite type ends at a comma or a bracket that is not in quotes.
PART = r'((?:"(?:[^"\\]|\\.|"")*"|\\.|[^"\\,)\]])*)'
BOUNDS = rf"[\[(]{PART},{PART}[\])]"
FIELDS = rf"[(,]{PART}"
WITHOUT_QUOTES = sql.SQL(r"""regexp_replace(nullif({}, ''), '\\(.)|"(")|"', '\1\2', 'g')""")


def possible(connection: Connection, resource: Resource, names: frozenset[str]) -> bool:
    """Tell whether a text in one of these columns could lose a part."""
    if not names:
        return False  # most batches have no such column, and need not turn the session
    with namespaces.theirs(connection):
        given = sql.SQL("NULL")
        return any(condition(connection, resource.column(name).exact_type, given) is not None for name in names)


def condition(connection: Connection, type_: str, given: Composable, depth: int = 0) -> Composable | None:
    """Write the question whether a type, which is named with its precision, would lose a part of a text that it can
    read. Return None if it keeps every text whole."""
    row = connection.execute(queries.text("reflection", "parts"), {"type": type_}).fetchone()
    assert row is not None
    sort, below, fields = row
    if sort == "d":
        return condition(connection, below, given, depth)
    if fields is not None:
        return of_fields(connection, fields, given, depth)
    if below is None:
        return of_plain(type_, given)
    value = sql.Identifier(f"part{depth}")
    lost = condition(connection, type_.removesuffix("[]") if sort == "b" else below, value, depth + 1)
    if lost is None:
        return None
    parts = sql.SQL("unnest({}::text[]) AS elements ({})").format(given, value)
    if sort != "b":
        parts = sql.SQL(
            "(SELECT {} AS {} FROM regexp_matches({}, {}, 'g') AS found (texts), unnest(texts) AS bound) bounds"
        ).format(WITHOUT_QUOTES.format(sql.SQL("bound")), value, given, BOUNDS)
    return any_part(parts, lost)


def of_fields(connection: Connection, types: list[str], given: Composable, depth: int) -> Composable | None:
    """Write the question for a type that has fields of these types."""
    value = sql.Identifier(f"part{depth}")
    found = [(place, condition(connection, each, value, depth + 1)) for place, each in enumerate(types, 1)]
    cases = [sql.SQL("WHEN {} THEN {}").format(place, lost) for place, lost in found if lost is not None]
    if not cases:
        return None
    parts = sql.SQL(
        "(SELECT {} AS {}, place FROM regexp_matches({}, {}, 'g') WITH ORDINALITY AS found (texts, place)) fields"
    ).format(WITHOUT_QUOTES.format(sql.SQL("texts[1]")), value, given, FIELDS)
    return any_part(parts, sql.SQL("CASE place {} END").format(sql.SQL(" ").join(cases)))


def any_part(parts: Composable, lost: Composable) -> Composable:
    return sql.SQL("EXISTS (SELECT FROM {} WHERE {})").format(parts, lost)


def of_plain(type_: str, given: Composable) -> Composable | None:
    """Write the question for a type that is not made of others."""
    base = without_precision(type_)
    questions = ["{given}::{base} IS DISTINCT FROM {given}::{type}"] if base != type_ else []
    questions += [LOSSES[base]] if base in LOSSES else []
    if TIMES.match(base):
        precision = re.search(r"\((\d)\)", type_)
        questions.append(rf"{{given}} ~ '\.\d{{{{{precision[1] if precision else DIGITS}}}}}\d*[1-9]'")
    if not questions:
        return None
    return sql.SQL(" OR ").join(
        sql.SQL(f"({each})").format(given=given, base=sql.SQL(base), type=sql.SQL(type_)) for each in questions
    )
