"""Imports as they are drawn, and what came of one beside what the slow one says."""

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import progress, submission
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines_tests.property.imports import drawn_files, slow_import
from bulk_pipelines_tests.property.imports.drawn_files import IDS
from bulk_pipelines_tests.property.imports.slow_import import Asked, Outcome, Row, Tables
from bulk_pipelines_tests.property.imports.slow_reading import NoGood
from bulk_pipelines_tests.scenes.oracle import (
    Sizes,
    ended,
    refreshed,
)

OLD = datetime(2020, 1, 1, tzinfo=UTC)
RESOURCES = ("users", "articles", "comments")

sizes = st.builds(Sizes, st.integers(1, 300), st.integers(1, 8), st.integers(1, 64), st.integers(1, 3))
steps = st.integers(1, 60)
limits = st.sampled_from(["abort", "1", "3", "0%", "20%", "50%", "99%"])


@st.composite
def tables(draw: st.DrawFn, resource: Resource) -> Tables:
    """What is there before; most of what records refer to is."""
    some = st.sets(st.sampled_from(IDS[:4]), max_size=3)
    most = st.sampled_from([IDS[:3], IDS[:3], IDS[:2], []])
    known = draw(some if resource.name == "users" else most)
    people = {key: user(key, name) for key, name in zip(known, "abc", strict=False)}
    written = draw(most if resource.name == "comments" else some) if people else []
    articles = {key: article(key, slug, min(people)) for key, slug in zip(written, "abc", strict=False)}
    said = draw(some) if articles else set()
    return {
        "users": people,
        "articles": articles,
        "comments": {key: comment(key, min(articles), min(people)) for key in said},
    }


def user(key: str, name: str) -> Row:
    times = {"created_at": OLD, "updated_at": OLD, "line": None}
    return {"id": key, "email": f"{name}@x.org", "name": "Old", "role": "editor", "active": False, **times}


def article(key: str, slug: str, author: str) -> Row:
    texts = {"slug": slug, "title": "Old", "description": "Old", "body": "Old", "status": "published"}
    times = {"published_at": OLD, "created_at": OLD, "updated_at": OLD, "line": None}
    return {"id": key, "author_id": author, "tags": ["old"], **texts, **times}


def comment(key: str, about: str, author: str) -> Row:
    return {"id": key, "article_id": about, "user_id": author, "body": "Old", "created_at": OLD, "line": None}


@dataclass(frozen=True)
class Drawn:
    name: str
    files: list[bytes]
    mode: Mode
    match_on: str | None
    before: Tables
    on_error: str = "continue"

    @property
    def resource(self) -> Resource:
        return resources.find(self.name)

    def asked(self, refused: Callable[[Row], bool] = lambda _: False) -> Asked:
        return Asked(self.resource, self.files, self.mode, self.match_on, refused)


@st.composite
def imports(draw: st.DrawFn) -> Drawn:
    resource = resources.find(draw(st.sampled_from(RESOURCES)))
    files = draw(st.lists(drawn_files.files(resource), min_size=1, max_size=3))
    if draw(st.integers(0, 4)) == 0:
        files.append(files[0])
    mode = draw(st.sampled_from([Mode.INSERT, Mode.INSERT, Mode.VALIDATE, Mode.UPSERT, Mode.UPSERT]))
    keys = [None, *(key.column for key in resource.keys)]
    match_on = draw(st.sampled_from(keys)) if mode is Mode.UPSERT else None
    return Drawn(resource.name, files, mode, match_on, draw(tables(resource)))


def can_be_read(drawn: Drawn) -> bool:
    try:
        slow_import.imported(drawn.asked(), drawn.before, OLD)
    except NoGood:
        return False
    return True


good_imports = imports().filter(can_be_read)


def prepare(engine: Engine, before: Tables) -> None:
    with transaction(engine) as connection:
        connection.execute("DELETE FROM comments; DELETE FROM articles; DELETE FROM users")
        for name in RESOURCES:
            columns = resources.find(name).column_names
            insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(name),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(sql.Placeholder() * len(columns)),
            )
            for row in before[name].values():
                connection.execute(insert, [row[column] for column in columns])


def submitted(engine: Engine, folder: Path, drawn: Drawn) -> Job:
    given = []
    for data in drawn.files:
        path = folder / uuid.uuid4().hex
        path.write_bytes(data)
        given.append(RequestedFile(str(path), len(data)))
    validate_only = drawn.mode is Mode.VALIDATE
    mode = "insert" if validate_only else drawn.mode
    options = Options(drawn.name, mode, match_on=drawn.match_on, on_error=drawn.on_error, validate_only=validate_only)
    asked = options.request(tuple(given))
    with transaction(engine) as connection:
        job = submission.submit(connection, asked, Sender("me", "cli")).job
        return jobs.start(connection, job.job_key)


def found(engine: Engine, drawn: Drawn, job: Job) -> dict[str, Any]:
    """What came of an import, in the words of the slow one."""
    names = drawn.resource.column_names
    query = sql.SQL("SELECT {}, import_line, import_job FROM {}").format(
        sql.SQL(", ").join(map(sql.Identifier, names)), sql.Identifier(drawn.resource.table)
    )
    with transaction(engine) as connection:
        rows = connection.execute(query).fetchall()
        counts = vars(progress.read(connection, job.job_id).counts)
        kept = list(rejects.every(connection, job.job_id))
        aside = connection.execute(f"SELECT count(*) FROM {drawn.resource.table}_aside").fetchone()
    assert {row[-1] for row in rows} <= {None, job.job_id}
    plain = [[str(value) if isinstance(value, uuid.UUID) else value for value in row[:-1]] for row in rows]
    return {
        "rows": {row[0]: dict(zip((*names, "line"), row, strict=True)) for row in plain},
        "rejects": {
            each.line: (each.raw, [(reason["code"], reason.get("field")) for reason in each.reasons]) for each in kept
        },
        "counts": Counter({name: count for name, count in counts.items() if count}),
        "status": str(job.status),
        "left_out": (job.result or {}).get("files_left_out"),
        "aside": aside,
    }


def wanted(outcome: Outcome) -> dict[str, Any]:
    return {
        "rows": outcome.rows,
        "rejects": outcome.rejects,
        "counts": +outcome.counts,
        "status": outcome.status,
        "left_out": outcome.left_out,
        "aside": (0,),
    }


def compare(engine: Engine, drawn: Drawn, job: Job, refused: Callable[[Row], bool] = lambda _: False) -> None:
    outcome = slow_import.imported(drawn.asked(refused), drawn.before, job.created_at)
    came, should = found(engine, drawn, ended(engine, job)), wanted(outcome)
    for part in should:
        assert came[part] == should[part], f"{part}: {came[part]}, and not {should[part]}"


def is_accepted(drawn: Drawn, refused: Callable[[Row], bool]) -> bool:
    """Tell whether the import accepts as many rejects as it has when all of it is decided."""
    counts = slow_import.imported(drawn.asked(refused), drawn.before, OLD).counts
    if drawn.on_error.endswith("%"):
        return counts["rejected"] * 100 <= int(drawn.on_error.removesuffix("%")) * counts["read"]
    return counts["rejected"] <= (0 if drawn.on_error == "abort" else int(drawn.on_error))


def compare_cut_short(engine: Engine, drawn: Drawn, job: Job) -> None:
    """Compare an import that was cancelled or aborted: each of its records counts once; what it has changed, it has
    changed rightly."""
    every = {each.line: each for each in slow_import.candidates(drawn.asked())}
    came = found(engine, drawn, ended(engine, job))
    counts, rows = came["counts"], came["rows"]
    total = slow_import.imported(drawn.asked(), drawn.before, OLD).counts["read"]
    assert counts["read"] + counts["unprocessed"] == (total if refreshed(engine, job).planned_at else 0)
    assert counts["read"] == sum(counts[name] for name in ("loaded", "rejected", "superseded", "valid"))
    assert counts["rejected"] == len(came["rejects"])
    assert came["aside"] == (0,)
    before = drawn.before[drawn.name]
    new = {key: row for key, row in rows.items() if key not in before}
    assert {key: row for key, row in rows.items() if key in before} == before
    assert len(new) == counts["loaded"]
    assert not new or drawn.mode is Mode.INSERT
    for row in new.values():
        assert row == slow_import.new_row(drawn.asked(), every[row["line"]], job.created_at)
