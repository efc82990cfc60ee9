"""What would help a file whose records are rejected as it is read: a decimal comma, the form of its dates, or a name
for the empty field with which its records end."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bulk_pipelines.columns import arrow
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.files.values import dated
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.records.csv_parsing import LAST_IS_EMPTY
from bulk_pipelines.imports.validate.validation import Validated
from bulk_pipelines.resources.declaration import Column, Resource

COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+,\d+|\d+,(\d\d?|\d{4,}))")
"""A number that means nothing if its comma does not stand before decimals."""
DATE = re.compile(r"\s*\d{1,2}([./-])\d{1,2}\1\d{4}(?:([ T])\d{1,2}:\d\d(:\d\d)?)?\s*")
DATES = {ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.LOCAL_TIMESTAMP}


@dataclass(frozen=True)
class Proposal:
    """What is odd about a file, in words, and the options with which it might be read; none if only a person can tell
    them."""

    said: str
    remedy: Mapping[str, Any]


def proposed(resource: Resource, validated: Validated, layout: Layout, reading: Reading) -> Iterator[Proposal]:
    """Yield what might help, the most certain first."""
    yield from closing_delimiter(validated, layout, reading)
    rejected = [reason for reject in validated.rejects for reason in reject.reasons]
    numbers = (reason.value for reason in rejected if reason.value and COMMA.fullmatch(reason.value))
    if reading.decimal is None and (number := next(numbers, None)) is not None:
        yield Proposal(f"numbers such as {number} have a decimal comma: say --decimal comma", {"decimal": ","})
    for column in resource.columns:
        if column.kind in DATES and column.name not in dict(reading.dates):
            bad = [each.value for each in rejected if each.field == column.name and each.code == column.code]
            yield from forms_of_dates(column, [value for value in bad if value and DATE.fullmatch(value)], reading)


def closing_delimiter(validated: Validated, layout: Layout, reading: Reading) -> Iterator[Proposal]:
    """Propose a name for the last field if the header has none for it, and it is empty in all records."""
    if reading.no_header or not validated.rejects or len(validated.lines):
        return
    details = (reject.reasons[0].detail or "" for reject in validated.rejects)
    if not all(detail == LAST_IS_EMPTY.format(len(layout.fields) + 1, len(layout.fields)) for detail in details):
        return
    titles = layout.mapping.titles if layout.mapping is not None else layout.fields
    names = named((*titles, ""))
    invented = [name for name, title in zip(names, (*titles, ""), strict=True) if name != title]
    yield Proposal(
        f"its records end with a delimiter that the header lacks: give the empty field a name, such as {names[-1]!r},"
        " and leave it out (--skip-lines, --no-header, --fields and --ignore)",
        {
            "skip_lines": layout.first_line - 1,
            "no_header": True,
            "fields": names,
            "ignore": (*filter(None, reading.ignore), *invented),
        },
    )


def named(titles: Sequence[str]) -> tuple[str, ...]:
    """Return names for fields by their titles: a field without one, or with that of another, gets one by its number."""
    names: list[str] = []
    for number, title in enumerate(titles, 1):
        name, more = title, 0
        while not name or name in names or (name != title and name in titles):
            name = f"field {number}" + (f".{more}" if more else "")
            more += 1
        names.append(name)
    return tuple(names)


def forms_of_dates(column: Column, values: list[str], reading: Reading) -> Iterator[Proposal]:
    """Propose the only form in which all these dates can be read, or name the forms if there are two."""
    found = None if not values else DATE.fullmatch(values[0])
    if found is None:
        return
    mark, between, seconds = found.groups()
    clock = "" if between is None else f"{between}%H:%M{':%S' if seconds else ''}"
    texts = pa.array(values)
    forms = [f"%{one}{mark}%{other}{mark}%Y{clock}" for one, other in ("dm", "md")]
    forms = [form for form in forms if not dated(texts, form).null_count]
    options = [f"--date {column.name}={form}" for form in forms]
    if len(forms) > 1:
        said = f"dates such as {values[0].strip()} can be read in several ways: say {' or '.join(options)}"
        yield Proposal(said, {})
    elif forms:
        # The value to show is one that cannot be read in the other way.
        other = "%m" if forms[0].startswith("%d") else "%d"
        telling = dated(texts, re.sub("%[dm](.)%[dm]", rf"{other}\1{forms[0][:2]}", forms[0])).is_null()
        value = arrow.compute.filter(texts, telling)[0].as_py().strip()
        yield Proposal(
            f"dates such as {value} are read with {options[0]}", {"dates": (*reading.dates, (column.name, forms[0]))}
        )
