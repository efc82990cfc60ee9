"""Checking the records of a block against the rules of their resource: the good ones become rows in columns, the others
rejects with all their reasons."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import arrow, conversion, uuids
from bulk_pipelines.columns.arrow import Column, Mask, Numbers, compute, nothing
from bulk_pipelines.columns.binary_copy import Encoded
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.records import csv_parsing, json_parsing, mapping, rows_parsing
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason, shown
from bulk_pipelines.imports.validate import rows, rules
from bulk_pipelines.resources.declaration import Column as Declared
from bulk_pipelines.resources.declaration import Fill, Resource


@dataclass(frozen=True)
class Reject:
    """A whole record that is not loaded, and every reason why. If `raw` holds only its beginning, `raw_size` says how
    long it is."""

    line: int
    raw: bytes
    reasons: list[Reason]
    raw_size: int | None = None


@dataclass(frozen=True)
class Validated:
    """What came of a block: its good rows and its rejects. `records` says which record of the block each good row is,
    `lines` where it stood."""

    block: Block
    good: pa.Table
    encoded: Encoded
    """The good rows, and their origin if the table has a place for it, in the form that the database takes."""
    records: Numbers
    lines: Numbers
    rejects: list[Reject]
    ledger: Encoded | None = None
    """The keys and lines of the good rows, if the import keeps a ledger of them."""
    unread: tuple[str, ...] = ()
    """The columns whose values only PostgreSQL can read, so that some of them may be no values."""
    doubtful: frozenset[str] = frozenset()
    """The columns of which PostgreSQL might round or cut some value without a word, so that it must be asked before the
    values are given to it."""
    given: pa.Table | None = None
    """The good rows' values as they stand in the file, of the columns that were converted from text which PostgreSQL
    reads as well. It is quicker to send these than to write the values again."""

    @property
    def read(self) -> int:
        return len(self.lines) + len(self.rejects)


NOTHING = Encoded([], pa.array([], pa.binary()), np.array([], dtype=np.int64))


@dataclass
class Findings:
    """What the rules object to: the rows that break any of them, and for each objection the numbers of the rows, the
    code and the field."""

    bad: Mask
    noted: list[tuple[Numbers, str, str]] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)

    def note(self, broken: Mask, code: str, column: str) -> None:
        if broken.any():
            self.bad |= broken
            self.noted.append((np.flatnonzero(broken), code, column))


def validate(context: ImportContext, layout: Layout, block: Block) -> Validated:
    resource = context.resource
    if layout.format is Format.ROWS:
        parsed = rows_parsing.parse(block, layout, resource, context.max_record_bytes)
    elif layout.format is Format.CSV:
        parsed = csv_parsing.parse(block, layout.fields, layout.dialect)
    else:
        parsed = json_parsing.parse(block, resource, layout.mapping)
    parsed = mapping.mapped(parsed, layout, resource, context.evaluate)
    findings = Findings(np.zeros(parsed.table.num_rows, dtype=bool))
    values = checked(resource, block, parsed, findings)
    given = as_given(resource, parsed)
    rejects = []
    if parsed.faults or findings.noted:
        reasons = reasons_of(resource, parsed, findings)
        rejects = [reject(block, record, reasons[record]) for record in sorted(reasons)]
        findings.bad |= np.isin(parsed.records, list(parsed.faults))
    table = pa.table(values, names=list(resource.column_names))
    records, lines = parsed.records, parsed.lines
    if findings.bad.any():
        good = ~findings.bad
        table, records, lines = table.filter(pa.array(good)).combine_chunks(), records[good], lines[good]
        given = None if given is None else given.filter(pa.array(good)).combine_chunks()
    table = filled(context, table, lines)
    return made(
        context,
        Validated(block, table, NOTHING, records, lines, rejects, None, (), frozenset(findings.doubtful), given),
    )


def made(context: ImportContext, validated: Validated) -> Validated:
    """Return the batch with its good rows encoded."""
    table = validated.good
    columns = {name: arrow.column(table, name) for name in table.column_names}
    return replace(
        validated,
        encoded=rows.for_table(context, table, validated.lines, validated.given),
        ledger=rows.for_ledger(context, table, validated.lines),
        unread=tuple(rows.left_to_table(context.resource, columns)),
    )


def as_given(resource: Resource, parsed: Parsed) -> pa.Table | None:
    """Return the columns as they stand in the file that are held in another form, and that PostgreSQL could read as
    well; None if there are none."""
    names = [
        column.name
        for column in resource.columns
        if column.judged_by_table
        and column.fill is None
        and not pa.types.is_string(column.kind.arrow)
        and column.name in parsed.table.column_names
    ]
    texts = {name: arrow.column(parsed.table, name) for name in names}
    texts = {name: text for name, text in texts.items() if pa.types.is_string(text.type)}
    return pa.table(texts) if texts else None


def checked(resource: Resource, block: Block, parsed: Parsed, findings: Findings) -> list[Column]:
    """Return the columns of the resource in their own types, and note everything that is wrong with their values."""
    has_nul = block.may_hold_nul
    values = []
    for column in resource.columns:
        if column.name not in parsed.table.column_names:
            values.append(nothing(parsed.table.num_rows, conversion.STORED[column.kind]))
            continue
        given = arrow.column(parsed.table, column.name)
        values.append(checked_column(column, given, has_nul, findings))
    for rule in resource.record_rules:
        held, when = (values[resource.column_names.index(name)] for name in (rule.column, rule.when_column))
        findings.note(rules.broken_together(rule, held, when), rule.code, rule.column)
    return values


def checked_column(column: Declared, given: Column, has_nul: bool, findings: Findings) -> Column:
    is_text = pa.types.is_string(given.type)
    if is_text and not column.empty_is_value:
        given = arrow.without_empty(given)
    if column.required:
        missing = ~given.is_valid().to_numpy(zero_copy_only=False)
        if is_text and not column.may_be_blank:
            missing |= rules.blank(given)
        findings.note(missing, "missing_field", column.name)
        if missing.any():
            given = compute.if_else(pa.array(missing), pa.scalar(None, given.type), given)
    if column.judged_by_table and is_text:
        return loosely_checked(column, given, has_nul, findings)
    values = conversion.convert(given, column.kind)
    if values.null_count > given.null_count:
        unreadable = compute.and_(values.is_null(), given.is_valid()).to_numpy(zero_copy_only=False)
        findings.note(unreadable, column.code, column.name)
    if has_nul:
        findings.note(rules.with_nul(values), "invalid_character", column.name)
    for rule in column.rules:
        findings.note(rules.broken(rule, values), rule.code, column.name)
    return values


def loosely_checked(column: Declared, given: Column, has_nul: bool, findings: Findings) -> Column:
    """Check a column whose values PostgreSQL can read itself. Only what it would round or cut silently is looked for,
    and the rules of the declaration."""
    if has_nul:
        with_nul = rules.with_nul(given)
        findings.note(with_nul, "invalid_character", column.name)
        given = compute.if_else(pa.array(with_nul), pa.scalar(None, pa.string()), given)
    for rule in column.rules:
        findings.note(rules.broken(rule, given), rule.code, column.name)
    finer, doubtful = rules.loses(column, given)
    if finer is not None:
        findings.note(finer, "does_not_fit", column.name)
    if doubtful:
        findings.doubtful.add(column.name)
    return given if column.kind is ColumnKind.TEXT else conversion.loosely(given, column.kind)


def reasons_of(resource: Resource, parsed: Parsed, findings: Findings) -> Faults:
    """Return all reasons of each record that has any, in the order of the columns."""
    reasons = Faults()
    for record, faults in parsed.faults.items():
        reasons[record].extend(faults)
    for places, code, column in findings.noted:
        records = parsed.records[places]
        given = parsed.table.column(column).take(places).to_pylist()
        for record, value in zip(records.tolist(), given, strict=True):
            # A value that could not be read at all is not reported as missing as well.
            if code != "missing_field" or all(fault.field != column for fault in parsed.faults.get(record, [])):
                reasons.add(record, Reason(code, column, as_text(value)))
    order = {name: place for place, name in enumerate(resource.column_names)}
    for found in reasons.values():
        found.sort(key=lambda reason: order.get(reason.field or "", -1))
    return reasons


def as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return shown(value)
    return shown(json.dumps(value, ensure_ascii=False))


def reject(block: Block, record: int, reasons: list[Reason]) -> Reject:
    line = int(block.spans.lines[record])
    return Reject(line, block.raw(record), reasons, block.size if block.oversized else None)


def filled(context: ImportContext, table: pa.Table, lines: Numbers) -> pa.Table:
    """Fill in what stands in for values that are not given. An existing row keeps its own values when an upsert gives
    none, so for upserts only ids are filled in now."""
    for place, column in enumerate(context.resource.columns):
        values = table.column(place)
        if (
            column.fill is None
            or not values.null_count
            or (context.mode is Mode.UPSERT and column.fill is not Fill.NEW_ID)
        ):
            continue
        values = compute.coalesce(values.combine_chunks(), like(values.type, stand_in(context, column.fill, lines)))
        table = table.set_column(place, column.name, values)
    return table.combine_chunks()


def like(kind: pa.DataType, value: Column) -> Column:
    """Return the values or the single value that stands in, as text where the column is text."""
    if not pa.types.is_string(kind):
        return value
    return uuids.to_text(value) if isinstance(value, pa.Array) else value.cast(pa.string())


def stand_in(context: ImportContext, fill: Fill, lines: Numbers) -> Column:
    match fill:
        case Fill.NEW_ID:
            return uuids.made_of(context.content_hash, lines - context.base_line)
        case Fill.IMPORT_TIME | Fill.CHANGE_TIME:
            return pa.scalar(context.submitted_at, ColumnKind.TIMESTAMP.arrow)
        case Fill.TRUE:
            return pa.scalar(True)
        case Fill.EMPTY_LIST:
            return pa.scalar([], ColumnKind.TEXT_LIST.arrow)
