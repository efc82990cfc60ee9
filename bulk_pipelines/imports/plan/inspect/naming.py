"""Which field of a file goes to which column: by what was told, by the same name, or by a name that differs only in
case, spaces and punctuation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.fields import (
    LONGEST_SHOWN,
    alike,
    closest,
    first_of,
    mapped,
    mentions,
    places_of,
    sql_names,
    with_hint,
)
from bulk_pipelines.formats.files.unfit import Unfit
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.formats.row_values import RowValues
from bulk_pipelines.resources.declaration import Resource

MOST_GUESSED = 200
"""The most fields among which one is looked for that may mean a column."""


@dataclass(frozen=True)
class FieldMapping:
    """What becomes of the fields of a file. `fields` are their names as expressions call them, and `columns` are the
    columns that they go to, an empty text for a field that goes to none. If the names of the fields are not known, as
    in JSON, each column gets the field of its own name."""

    fields: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    constants: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, str], ...] = ()
    dates: tuple[tuple[str, str], ...] = ()
    decimal: str | None = None
    ignore_extra: bool = False
    titles: tuple[str, ...] = ()
    """The names of the fields as the file has them."""
    nulls: tuple[str, ...] = ()
    """Spellings of no value, where the parser of CSV does not see to them."""
    commas: tuple[int, ...] = ()
    """The places of the fields of a table that go to columns of numbers, if these have a decimal comma."""

    @property
    def row_values(self) -> RowValues:
        """How the values of a table are taken."""
        return RowValues(len(self.fields), self.nulls, self.commas)

    @property
    def made(self) -> tuple[str, ...]:
        """The columns whose values come from no field."""
        return tuple(column for column, _ in (*self.constants, *self.expressions))


def fitting(fields: Sequence[str], resource: Resource) -> int:
    """Return how many columns of the resource some field fits."""
    return len({alike(field) for field in fields} & {alike(name) for name in resource.header})


def needed(resource: Resource) -> set[str]:
    """Return what is left of the names of the columns that every file must have."""
    return {alike(column.in_files or column.name) for column in resource.columns if column.needed_in_files}


def mapping(fields: Sequence[str], resource: Resource, reading: Reading) -> FieldMapping:
    """Map the fields of a file to the columns of the resource; raise `Unfit`, which says everything that is wrong, if
    some field fits no column, or a column that needs a value has none."""
    known = resource.column_names
    names = sql_names(fields)
    check_columns(resource, reading)
    check_told(fields, resource, reading)
    told, reading = once_each(fields, reading)
    made = made_by(reading)
    left_out = {place for field in reading.ignore for place in places_of(field, fields, "ignore")}
    chosen = dict.fromkeys(left_out, "") | told
    if reading.no_header and not reading.fields:
        chosen |= {place: name for place, name in enumerate(known) if place not in chosen}
    else:
        called = {called: column for called, column in resource.header.items() if column not in made}
        match_names(fields, called, chosen)
    columns = tuple(chosen.get(place, "") for place in range(len(fields)))
    used = {place for place, name in enumerate(names) if any(mentions(each, name) for _, each in reading.expressions)}
    extra = [
        place
        for place, field in enumerate(fields)
        if place not in chosen and place not in used and field not in made and not reading.ignore_extra
    ]
    refuse(fields, columns, extra, resource, reading)
    refuse_money(columns, resource, reading)
    made_of = (reading.constants, reading.expressions, reading.dates, reading.decimal)
    return FieldMapping(names, columns, *made_of, titles=tuple(fields))


def refuse_money(columns: Sequence[str], resource: Resource, reading: Reading) -> None:
    """Refuse a decimal comma for columns of money, in which PostgreSQL reads `1,5` as 15 or as 1.5."""
    money = [name for name in columns if name and resource.column(name).exact_type == "money"]
    if reading.decimal and money:
        raise InvalidInput(
            "decimal",
            f"{money[0]} is money, which the server reads by its own lc_monetary: leave the option or the column out,"
            " or make the value by --expression, such as replace(price, ',', '.')::numeric",
        )


def once_each(fields: Sequence[str], reading: Reading) -> tuple[dict[int, str], Reading]:
    """Return the column of each field that was told to go to one, and the reading, in which a further column of such a
    field is made by the expression that is its name."""
    found, again = mapped(reading.map, fields)
    names = sql_names(fields)
    more = tuple((column, f'"{names[place]}"') for column, place in again)
    return found, replace(reading, expressions=reading.expressions + more)


def check_columns(resource: Resource, reading: Reading) -> None:
    """Refuse options that name columns which the resource does not have."""
    known = resource.column_names
    for option in ("map", "constants", "expressions", "dates"):
        for column, _ in getattr(reading, option):
            if column not in known:
                raise InvalidInput(option, f"{resource.name} has no column {with_hint(column, known)}")


def check_told(fields: Sequence[str], resource: Resource, reading: Reading) -> None:
    if reading.no_header and not reading.fields and len(fields) != len(resource.columns):
        width = counted(len(resource.columns), "column")
        told = f"{resource.name} has {width}, and the first record has {counted(len(fields), 'field')}"
        raise InvalidInput("fields", f"{told}: name the fields with --fields {','.join(resource.column_names[:3])},…")
    if reading.fields and len(reading.fields) != len(fields):
        names = counted(len(reading.fields), "field")
        raise InvalidInput("fields", f"names {names}, and the first record has {len(fields)}")


def match_names(fields: Sequence[str], called: Mapping[str, str], chosen: dict[int, str]) -> None:
    """Give each column the field that bears its name in files, or else the only field whose name is alike. `called` has
    the columns by these names."""
    left = {name: column for name, column in called.items() if column not in chosen.values()}
    for same in (str, alike):
        for name, column in list(left.items()):
            found = [place for place, field in enumerate(fields) if place not in chosen and same(field) == same(name)]
            if len(found) == 1 or (found and same is str):
                chosen |= dict.fromkeys(found, column)
                del left[name]


def refuse(
    fields: Sequence[str], columns: Sequence[str], extra: Sequence[int], resource: Resource, reading: Reading
) -> None:
    problems, remedy = [], dict[str, Any]()
    made = made_by(reading)
    counts = Counter(column for column in columns if column)
    doubled = sorted(name for name, count in counts.items() if count > 1)
    if doubled:
        told = first_of(doubled, lambda name: name[:LONGEST_SHOWN])
        problems.append(f"named twice: {told} (--skip-lines, --no-header and --fields give other names)")
    if extra:
        unknown = list(dict.fromkeys(fields[place] for place in extra))
        free = tuple(name for name, column in resource.header.items() if column not in counts and column not in made)
        problems.append(
            f"unknown: {first_of(unknown, lambda name: with_hint(name, free))}"
            " (--ignore-extra leaves them out, --map COLUMN=FIELD says where one goes)"
        )
        remedy["ignore_extra"] = True
    missing = {
        column.in_files or column.name: column.name
        for column in resource.columns
        if column.needed_in_files and column.name not in counts and column.name not in made
    }
    if missing:
        problems.append(
            f"missing: {', '.join(missing)} (--map COLUMN=FIELD, --constant COLUMN=VALUE or --expression give a value)"
        )
        remedy = guessed([fields[place] for place in extra], missing, reading)
    if problems:
        nothing = "" if counts else "; if the first line is a record and no header, say --no-header"
        told = f"the columns of the file do not fit {resource.name}: {'; '.join(problems)}{nothing}"
        raise Unfit("source", told, remedy, fields, columns)


def made_by(reading: Reading) -> set[str]:
    return {column for column, _ in (*reading.constants, *reading.expressions)}


def guessed(extra: Sequence[str], missing: Mapping[str, str], reading: Reading) -> dict[str, Any]:
    """Return the options that give each missing column the only field that may mean it; none if some column has no
    such field. `missing` has the columns by their names in files. Among very many fields nobody looks for the one."""
    if len(extra) > MOST_GUESSED:
        return {}
    meant = [closest(field, tuple(missing)) for field in extra]
    if any(meant.count(called) != 1 for called in missing):
        return {}
    found = [(missing[called], field) for called, field in zip(meant, extra, strict=True) if called is not None]
    remedy: dict[str, Any] = {"map": (*reading.map, *found)}
    return remedy if len(found) == len(extra) else remedy | {"ignore_extra": True}
