"""Which field of JSON objects goes to which column. Every object may have other fields, so a file has those of its
first record, those that somebody told, and those that are called as columns are."""

import json
from collections.abc import Sequence

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.fields import alike, mapped, mentions, places_of, sql_names
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.plan.inspect import naming
from bulk_pipelines.imports.plan.inspect.header import LONGEST_HEADER
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.resources.declaration import Resource


def first_fields(source: LandedFile, start: int) -> tuple[str, ...]:
    """Return the names of the fields of the record that begins at this byte, as far as it can be read."""
    beginning = source.read(start, min(start + LONGEST_HEADER, source.size)).decode("utf-8", "replace").lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(beginning)
    except (ValueError, RecursionError):
        first = {}
    return tuple(first) if isinstance(first, dict) else ()


def mapping(first: Sequence[str], resource: Resource, reading: Reading) -> tuple[tuple[str, ...], FieldMapping | None]:
    """Return the columns of a file whose first record has these fields, and the mapping; none is needed if the fields
    have the names of the columns.

    All records have the same columns, because the table fills in a column either for all of them or for none: those
    without a default, and those that the first record has, or somebody told.
    """
    if reading.fields:
        raise InvalidInput("fields", "names the fields of a file without a header, and records of JSON name their own")
    naming.check_columns(resource, reading)
    told = [*reading.ignore, *(field for _, field in reading.map)]
    fields = list(dict.fromkeys([*first, *(each for each in told if not alike_in(each, first))]))
    refuse_mixed(fields, resource, reading)
    to_columns, reading = naming.once_each(fields, reading)
    made = naming.made_by(reading)
    chosen = {place: "" for field in reading.ignore for place in places_of(field, fields, "ignore")} | to_columns
    called = {called: column for called, column in resource.header.items() if column not in made}
    naming.match_names(fields, called, chosen)
    absent = {called: column for called, column in called.items() if column not in chosen.values()}
    for name, column in absent.items():
        if not resource.column(column).has_default and name not in fields:
            chosen[len(fields)] = column
            fields.append(name)
    fields += [name for name, column in resource.header.items() if column in made and name not in fields]
    texts = [expression for _, expression in reading.expressions]
    names = sql_names(fields)
    used = [place for place, name in enumerate(names) if place in chosen or mentioned(name, texts)]
    found = FieldMapping(
        tuple(names[place] for place in used),
        tuple(chosen.get(place, "") for place in used),
        reading.constants,
        reading.expressions,
        reading.dates,
        reading.decimal,
        reading.ignore_extra,
        tuple(fields[place] for place in used),
        reading.nulls,
    )
    naming.refuse_money(found.columns, resource, reading)
    given = {*found.columns, *made}
    columns = tuple(name for name in resource.column_names if name in given)
    header = resource.header
    as_called = all(header.get(title) == column for title, column in zip(found.titles, found.columns, strict=True))
    plain = as_called and not (made or reading.dates or reading.decimal or reading.nulls or reading.ignore_extra)
    return columns, None if plain else found


def refuse_mixed(fields: Sequence[str], resource: Resource, reading: Reading) -> None:
    """Refuse one field for a column of JSON and another one: JSON keeps the quotes of a text, and others do not."""
    first, again = mapped(reading.map, fields)
    for column, place in again:
        kinds = [resource.column(each).kind is ColumnKind.JSON for each in (first[place], column)]
        if any(kinds) and not all(kinds):
            both = f"{first[place]} and {column}"
            raise InvalidInput("map", f"{fields[place]} cannot go to {both}, because one is JSON and one is not")


def alike_in(told: str, fields: Sequence[str]) -> bool:
    return alike(told) in map(alike, fields)


def mentioned(name: str, expressions: Sequence[str]) -> bool:
    return any(mentions(each, name) for each in expressions)
