"""Looking at a file before it is imported: how it is read, which field goes to which column, its first records, what
would be rejected, and the options that are needed. Nothing is submitted, and nothing is written but to a folder that is
removed."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.columns import arrow
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import parquet_rows, sheets
from bulk_pipelines.formats import rows as row_files
from bulk_pipelines.formats.arrow_text import text_of, uuid_text
from bulk_pipelines.formats.files import archives, encodings, expressions
from bulk_pipelines.formats.files.fields import mentions
from bulk_pipelines.formats.files.unfit import Unfit
from bulk_pipelines.formats.reading import STANDARD, Reading
from bulk_pipelines.imports.context import ImportContext, Mode, matching_key
from bulk_pipelines.imports.load import weeding
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.plan.land import conversion, landing
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.parsed import shown
from bulk_pipelines.imports.request import ImportRequest, Options, RequestedFile
from bulk_pipelines.imports.validate.validation import Validated, validate
from bulk_pipelines.imports.work import MAX_RECORD_BYTES
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import addresses

JUDGED = 1_000
"""How many records are judged."""
SHOWN = 10
REMEDIES = 5
PACKED_TABLE = "parquet or arrow"
"""What is said of a table that came out of an archive: its rows do not tell what it was."""
COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+,\d+|\d+,(\d\d?|\d{4,}))")
"""A number that means nothing if its comma does not stand before decimals."""
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}


@dataclass(frozen=True)
class Mapped:
    """Where the values of a column come from: a field of the file, a constant or an expression."""

    column: str
    field: str | None = None
    constant: str | None = None
    expression: str | None = None


@dataclass(frozen=True)
class Rejected:
    line: int
    reasons: tuple[Mapping[str, str], ...]
    record: str


@dataclass(frozen=True)
class Preview:
    """What is known of a file. If `problem` says why it cannot be imported as it was asked, `remedy` has the options
    with which it can, as far as that is known; the rest then is what is found with them."""

    source: str
    resource: str
    format: str | None = None
    recognised: Mapping[str, str] = field(default_factory=dict)
    """How the file is written, in words: encoding, delimiter, sheet, compression."""
    columns: tuple[Mapped, ...] = ()
    left_out: tuple[str, ...] = ()
    """The fields of the file that go to no column."""
    without: tuple[str, ...] = ()
    """The columns that the file does not give."""
    fields: tuple[tuple[str, str], ...] = ()
    """The fields of the file, each with the column that it goes to, or an empty text; also where they do not fit."""
    records: tuple[Mapping[str, str | None], ...] = ()
    """The first records, by column; in them, values are in their text form."""
    judged: int = 0
    """How many records from the beginning were judged."""
    rejected: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How often each code of a reason was given."""
    rejects: tuple[Rejected, ...] = ()
    files: tuple[str, ...] = ()
    """The files of an archive that holds several; the rest is about the first of them."""
    problem: str | None = None
    remedy: Mapping[str, Any] = field(default_factory=dict)
    """Options that are needed beside those that were given."""
    reading: Reading = STANDARD
    """How the file is to be read, with the remedy."""


def preview(pool: Engine | None, options: Options, file: RequestedFile, chosen: Settings) -> Preview:
    """Look at a file as an import with these options would. A pool is needed if a column is made by an expression;
    with one, PostgreSQL is also asked for the values that only it can read."""
    request = options.request((file,))
    known = Preview(file.name or addresses.redacted(file.source), request.resource, reading=request.reading)
    with tempfile.TemporaryDirectory(prefix="bulk-preview-") as folder:
        place = replace(chosen, home=Path(folder), landing_url="")
        with landing.begun(request, place) as lands:
            asked = ImportFile(1, file, known.source)
            copy = lands.land(file, "preview/000001")
            asked = replace(asked, landed=copy.url, landed_version=copy.version, size=copy.bytes, sha256=copy.sha256)
            if copy.compression != "none":
                known = replace(known, recognised={"compression": str(copy.compression)})
            remedy: dict[str, Any] = {}
            problem = None
            for _ in range(REMEDIES):
                tried = replace(request, reading=replace(request.reading, **remedy))
                try:
                    found = looked_at(pool, tried, replace(lands, request=tried), asked, known)
                    if tried.reading.decimal is None and (number := with_comma(found)) is not None:
                        comma = replace(tried, reading=replace(tried.reading, decimal=","))
                        other = looked_at(pool, comma, replace(lands, request=comma), asked, known)
                        if other.rejected < found.rejected:
                            problem = problem or f"numbers such as {number} have a decimal comma: say --decimal comma"
                            found, tried, remedy = other, comma, {**remedy, "decimal": ","}
                    return replace(found, problem=problem, remedy=remedy, reading=tried.reading)
                except Unfit as error:
                    problem = problem or error.message
                    known = replace(known, fields=tuple(zip(error.fields, error.columns, strict=True)))
                    if not error.remedy or error.remedy.keys() <= remedy.keys():
                        is_guess = "sheet" in remedy
                        return replace(known, problem=error.message if remedy and not is_guess else problem)
                    remedy |= error.remedy
                except InvalidInput as error:
                    return replace(known, problem=problem or f"{error.field}: {error.message}", remedy=remedy)
    return replace(known, problem=problem, remedy=remedy)


def with_comma(found: Preview) -> str | None:
    """Return a value that was rejected and looks like a number with a decimal comma."""
    values = (reason.get("value", "") for each in found.rejects for reason in each.reasons)
    return next((value for value in values if COMMA.fullmatch(value)), None)


def looked_at(
    pool: Engine | None, request: ImportRequest, lands: landing.Landing, file: ImportFile, known: Preview
) -> Preview:
    if file.requested.format is None:
        known = replace(known, recognised={**known.recognised, **encoding_of(file, request.reading)})
        files = lands.convert(file, "preview/kept")
        if len(files) > 1:
            known = replace(known, files=tuple(each.source for each in files[1:]))
            file = next((each for each in files[1:] if each.landed is not None), files[1])
        else:
            file = files[0]
    if file.landed is None:
        raise InvalidInput("source", file.note or "the archive holds no file that can be read")
    with landing.opened(file) as source:
        certain = file.requested.layout or file.requested.format
        found = layout.inspect(source, request.declared, request.format, request.reading, certain=certain)
        evaluate = None
        if found.mapping is not None and found.mapping.expressions:
            if pool is None:
                raise InvalidInput("expressions", "PostgreSQL evaluates them, so a database is needed")
            expressions.check(pool, found.mapping.fields or found.columns, found.mapping.expressions)
            evaluate = partial(expressions.evaluate, pool)
        declared = request.declared.narrowed(found.columns)
        key = matching_key(declared, request.match_on, found.columns) if request.mode is Mode.UPSERT else None
        context = ImportContext(
            0,
            declared,
            request.mode,
            bytes.fromhex(file.sha256 or ""),
            datetime.now(UTC),
            match_on=key,
            max_record_bytes=MAX_RECORD_BYTES,
            evaluate=evaluate,
        )
        told = described(source, found, request.reading)
        recognised = {**known.recognised, **told}
        known = replace(known, format=recognised.pop("format", PACKED_TABLE), recognised=recognised)
        return with_records(with_mapping(known, request, found), context, source, found, pool)


def encoding_of(file: ImportFile, reading: Reading) -> dict[str, str]:
    """Say in which encoding a text is, or of which format a table."""
    with landing.opened(file) as source:
        head = source.read(0, min(conversion.HEAD, source.size))
    if head.startswith(archives.MAGICS):
        return {}
    if head.startswith(conversion.TABLES):
        return {"format": "parquet" if head.startswith(parquet_rows.PARQUET) else "arrow"}
    return {"encoding": encodings.found(head, reading.encoding) or "utf-8"}


def described(source: LandedFile, found: Layout, reading: Reading) -> dict[str, str]:
    """Say how the file is written."""
    if found.format is Format.ROWS:
        sheet = sheets.told(row_files.opened(source)[0])
        if sheet is None:
            return {}
        return {"format": "xlsx", "sheet": sheet.name} | ({"header": f"row {sheet.header}"} if sheet.header else {})
    said = {"format": str(found.format)}
    if found.format is not Format.CSV:
        return said
    dialect = found.dialect
    said["delimiter"] = MARKS.get(dialect.delimiter, dialect.delimiter)
    if dialect.quote != '"':
        said["quote"] = dialect.quote or "none"
    if dialect.escape is not None:
        said["escape"] = dialect.escape
    said["header"] = "none" if reading.no_header else f"line {found.first_line - 1}"
    return said


def with_mapping(known: Preview, request: ImportRequest, found: Layout) -> Preview:
    """Say where the values of the columns come from. A field that expressions read is not left out."""
    mapping = found.mapping or FieldMapping()
    names = mapping.fields or found.fields or found.columns
    columns = mapping.columns or names
    titles = mapping.titles or names
    told = [
        f"{title} (in expressions: {name})" if title != name else name
        for title, name in zip(titles, names, strict=True)
    ]
    made = [Mapped(column, field=field) for field, column in zip(told, columns, strict=True) if column]
    made += [Mapped(column, constant=value) for column, value in mapping.constants]
    made += [Mapped(column, expression=value) for column, value in mapping.expressions]
    read = {name for name in names for _, text in mapping.expressions if mentions(text, name)}
    given = {each.column for each in made}
    return replace(
        known,
        columns=tuple(made),
        fields=tuple(zip(titles, mapping.columns, strict=True)) if mapping.titles else (),
        left_out=tuple(
            title for title, name, column in zip(titles, names, columns, strict=True) if not column and name not in read
        ),
        without=tuple(name for name in request.declared.column_names if name not in given),
    )


@dataclass(frozen=True)
class Pace:
    rows: int = JUDGED
    max_bytes: int = 4 << 20


def with_records(
    known: Preview, context: ImportContext, source: LandedFile, found: Layout, pool: Engine | None
) -> Preview:
    """Judge the first records, but for what only the table as a whole can tell: constraints, keys and references."""
    pieces = iter(ranges.cut(source, found, 1 << 62))
    piece = next(pieces)
    block = next(blocks.read(source, found, piece, Pace(), context.max_record_bytes))
    validated = validate(context, found, block)
    if pool is not None and validated.unread:
        with transaction(pool) as connection:
            validated = weeding.weeded(connection, context, validated)
    codes = Counter(reason.code for reject in validated.rejects for reason in reject.reasons)
    rejects = tuple(
        Rejected(
            reject.line,
            tuple(reason.as_json() for reason in reject.reasons),
            shown(reject.raw.decode("utf-8", "backslashreplace")) or "",
        )
        for reject in validated.rejects[:SHOWN]
    )
    return replace(
        known,
        records=tuple(first_records(validated, context.resource, known)),
        judged=validated.read,
        rejected=len(validated.rejects),
        reasons=dict(codes.most_common()),
        rejects=rejects,
    )


def first_records(validated: Validated, resource: Resource, known: Preview) -> Iterator[Mapping[str, str | None]]:
    """Yield the first good records with the columns that the file gives."""
    table = validated.good.slice(0, SHOWN)
    names = [each.column for each in known.columns]
    texts = {}
    for name in names:
        written = uuid_text if resource.column(name).kind is ColumnKind.UUID else text_of
        texts[name] = written(arrow.column(table, name)).to_pylist()
    for place in range(table.num_rows):
        yield {name: shown(texts[name][place]) for name in names}
