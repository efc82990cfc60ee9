"""Looking at a file before it is imported: how it is read, which field goes to which column, its first records, what
would be rejected, and the options that are needed. Nothing is submitted, and nothing is written but to a folder that is
removed."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.columns import arrow, uuids
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files import expressions
from bulk_pipelines.formats.files.fields import mentions
from bulk_pipelines.formats.files.unfit import Unfit
from bulk_pipelines.formats.reading import STANDARD, Reading
from bulk_pipelines.formats.typed.arrow_text import text_of
from bulk_pipelines.imports.context import ImportContext, Mode, matching_key
from bulk_pipelines.imports.load import weeding
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.parsed import shown
from bulk_pipelines.imports.report import recognised
from bulk_pipelines.imports.report.proposals import proposed
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


def preview(
    pool: Engine | None, options: Options, file: RequestedFile, chosen: Settings, *, alone: bool = True
) -> Preview:
    """Look at a file as an import with these options would. A pool is needed if an expression makes a column; with one,
    PostgreSQL is also asked for values that only it can read. Beside other files, some option may be meant for them."""
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

                def look(wanted: ImportRequest, known: Preview = known) -> Look:
                    return looked_at(pool, wanted, replace(lands, request=wanted), asked, known)

                try:
                    found, said, helpful = improved(look, tried)
                    remedy |= helpful
                    if alone and not found.files:
                        request.reading.refuse_idle((found.format or "").split(" or "))
                    reading = replace(tried.reading, **helpful)
                    return replace(found, problem=problem or said, remedy=remedy, reading=reading)
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


@dataclass(frozen=True)
class Look:
    """What was found with a certain reading."""

    preview: Preview
    resource: Resource
    validated: Validated
    layout: Layout


def improved(
    look: Callable[[ImportRequest], Look], request: ImportRequest
) -> tuple[Preview, str | None, dict[str, Any]]:
    """Look at the file, also with what is proposed for it, for as long as that helps. Return what was found, what is
    odd about the file, and the options that helped."""
    found, said, helpful = look(request), None, dict[str, Any]()
    tried = set[str]()
    for _ in range(REMEDIES * REMEDIES):
        reading = replace(request.reading, **helpful)
        proposals = proposed(found.resource, found.validated, found.layout, reading)
        proposal = next((each for each in proposals if each.said not in tried), None)
        if proposal is None:
            break
        tried.add(proposal.said)
        if not proposal.remedy:
            said = said or proposal.said
            continue
        other = look(replace(request, reading=replace(reading, **proposal.remedy)))
        if wrong(other.preview) < wrong(found.preview):
            found, said, helpful = other, said or proposal.said, helpful | dict(proposal.remedy)
    return found.preview, said, helpful


def wrong(found: Preview) -> tuple[int, int, int]:
    """Tell how much is wrong with the records. What cannot be read at all counts most, because nobody knows what
    else is wrong with it."""
    return found.reasons.get("malformed_record", 0), found.rejected, sum(found.reasons.values())


def looked_at(
    pool: Engine | None, request: ImportRequest, lands: landing.Landing, file: ImportFile, known: Preview
) -> Look:
    if file.requested.format is None:
        known = replace(known, recognised={**known.recognised, **recognised.encoding_of(file, request.reading)})
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
        told = recognised.described(source, found, request.reading)
        how = {**known.recognised, **told}
        known = replace(known, format=how.pop("format", recognised.PACKED_TABLE), recognised=how)
        validated = judged(context, source, found, pool)
        seen = with_records(with_mapping(known, request, found), validated)
        return Look(seen, context.resource, validated, found)


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


def judged(context: ImportContext, source: LandedFile, found: Layout, pool: Engine | None) -> Validated:
    """Judge the first records, but for what only the table as a whole can tell: constraints, keys and references."""
    pieces = iter(ranges.cut(source, found, 1 << 62))
    piece = next(pieces)
    block = next(blocks.read(source, found, piece, Pace(), context.max_record_bytes))
    validated = validate(context, found, block)
    if pool is not None and validated.unread:
        with transaction(pool) as connection:
            validated = weeding.weeded(connection, context, validated)
    return validated


def with_records(known: Preview, validated: Validated) -> Preview:
    """Add the first records, and what was rejected."""
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
        records=tuple(first_records(validated, known)),
        judged=validated.read,
        rejected=len(validated.rejects),
        reasons=dict(codes.most_common()),
        rejects=rejects,
    )


def first_records(validated: Validated, known: Preview) -> Iterator[Mapping[str, str | None]]:
    """Yield the first good records with the columns that the file gives."""
    table = validated.good.slice(0, SHOWN)
    names = [each.column for each in known.columns]
    texts = {}
    for name in names:
        values = arrow.column(table, name)
        texts[name] = (uuids.to_text if values.type == uuids.BINARY else text_of)(values).to_pylist()
    for place in range(table.num_rows):
        yield {name: shown(texts[name][place]) for name in names}
