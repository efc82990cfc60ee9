"""Completing rejects whose records were not at hand when they were rejected: the landed file is read again for them."""

import base64
import json
from dataclasses import dataclass

import numpy as np

from bulk_pipelines.columns.arrow import Numbers
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Block

BEHIND_ALL = 2**62


@dataclass(frozen=True)
class Pace:
    """How much is read at a time: so many rows, and at most so many bytes."""

    rows: int = 20_000
    max_bytes: int = 8 * 1024 * 1024


def complete(begin: Begin, context: ImportContext, source: LandedFile, layout: Layout, ranges: list[Range]) -> None:
    borders = [each.first_line for each in ranges[1:]] + [BEHIND_ALL]
    for piece, border in zip(ranges, borders, strict=True):
        with begin() as connection:
            wanted = unread_lines(connection, context.job_id, piece.first_line, border)
        if not len(wanted):
            continue
        for block in blocks.read(source, layout, piece, Pace(), context.max_record_bytes):
            if np.any((wanted >= block.at.line) & (wanted <= block.following.line)):
                fill(begin, context.job_id, block, wanted)


def unread_lines(connection: Connection, job_id: int, first: int, border: int) -> Numbers:
    query = queries.text("imports", "unread_rejected_rows")
    rows = connection.execute(query, {"job_id": job_id, "first": first, "border": border})
    return np.array([line for (line,) in rows], dtype=np.int64)


def fill(begin: Begin, job_id: int, block: Block, wanted: Numbers) -> None:
    records = np.flatnonzero(np.isin(block.spans.lines, wanted)).tolist()
    if not records:
        return
    found = {int(block.spans.lines[record]): base64.b64encode(block.raw(record)).decode() for record in records}
    with begin() as connection:
        values = {"job_id": job_id, "found": json.dumps(found)}
        connection.execute(queries.text("imports", "fill_rejected_rows"), values)
