"""Records of users that are read and validated in this process, in every format."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bulk_pipelines import resources
from bulk_pipelines.columns import arrow, uuids
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.validate.validation import Reject, validate
from bulk_pipelines_tests.scenes.import_runs import SUBMITTED, Pace

ID = "00000000-0000-0000-0000-00000000000a"
OTHER = "00000000-0000-0000-0000-00000000000B"
USER = {"id": ID, "email": "Ann@Example.org", "name": "Ann", "role": "admin", "active": "true"}
ARTICLE = {"id": ID, "slug": "a-slug-1", "title": "T", "body": "B", "author_id": OTHER, "status": "published"}
NOTHING_TOLD = Reading()
COMMENT = {"id": ID, "article_id": ID, "user_id": OTHER, "body": "Hm"}


@dataclass(frozen=True)
class Outcome:
    good: list[dict[str, Any]]
    rejects: list[Reject]

    @property
    def codes(self) -> dict[int, list[str]]:
        return {each.line: [reason.code for reason in each.reasons] for each in self.rejects}

    @property
    def fields(self) -> dict[int, list[tuple[str, str | None, str | None]]]:
        return {each.line: [(why.code, why.field, why.value) for why in each.reasons] for each in self.rejects}


def outcome(
    path: Path,
    resource: str,
    data: bytes,
    *,
    rows: int = 1_000,
    max_record_bytes: int = 1 << 20,
    range_bytes: int = 1 << 30,
    reading: Reading = NOTHING_TOLD,
) -> Outcome:
    path.write_bytes(data)
    declared = resources.find(resource)
    context = ImportContext(
        1, declared, Mode.INSERT, hashlib.sha256(data).digest(), SUBMITTED, max_record_bytes=max_record_bytes
    )
    good, rejects = [], []
    with LocalFile(path) as source:
        found = layout.inspect(source, declared, reading=reading)
        for piece in ranges.cut(source, found, range_bytes):
            for block in blocks.read(source, found, piece, Pace(rows), max_record_bytes):
                validated = validate(context, found, block)
                names = validated.good.column_names
                columns = {name: arrow.column(validated.good, name) for name in names}
                texts = {n: uuids.to_text(c) if c.type == uuids.BINARY else c for n, c in columns.items()}
                lists = {name: column.to_pylist() for name, column in texts.items()}
                good += [dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)]
                rejects += validated.rejects
    return Outcome(good, rejects)


def csv_of(*rows: dict[str, str]) -> bytes:
    """Return a CSV file with these records. Each has the columns of the first one, and every field is in quotes, unless
    it is empty."""
    names = list(rows[0])
    lines = [",".join(names)] + [
        ",".join('"' + row[name].replace('"', '""') + '"' if row[name] else "" for name in names) for row in rows
    ]
    return "\n".join(lines).encode() + b"\n"


def json_of(row: dict[str, Any]) -> bytes:
    return json.dumps(row | ({"active": row["active"] == "true"} if "active" in row else {})).encode() + b"\n"


HEAD = b"id,email,name,role\n"
LINE = b"%s,%%s@x.org,N,reader\n" % ID.encode()
