"""Files as people have them: whatever they are written by, the same records come to the same table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.afterwards import outcomes, replays
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.report.preview import preview
from bulk_pipelines.imports.request import ImportRequest, Options, RequestedFile
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes import people_files
from bulk_pipelines_tests.scenes.people_files import COLUMNS, WAYS, frame, text_of, users, workbook, write, zipped
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, refreshed, submitted, worked

pytestmark = pytest.mark.usefixtures("home")

ORDINARY: dict[str, Callable[[list[people_files.User]], bytes]] = {
    "semicolon": lambda found: text_of(found, delimiter=";").encode(),
    "tab": lambda found: text_of(found, delimiter="\t").encode(),
    "cp1252": lambda found: text_of(found).encode("cp1252"),
    "headers": lambda found: text_of(found).replace("id,email,name", "ID,E-Mail,Name ", 1).encode(),
    "extra column": lambda found: frame(found).assign(notes="x").to_csv(index=False).encode(),
    "xlsx": lambda found: workbook(found, engine="openpyxl"),
    "parquet": people_files.parquet,
    "zip": lambda found: zipped(("users.csv", text_of(found).encode())),
}
"""The files of a new user: of these eight, six could not be imported."""


def told(**options: Any) -> dict[str, Any]:
    return {"reading": Reading.of(options)}


def rows(engine: Engine) -> list[tuple[Any, ...]]:
    with transaction(engine) as connection:
        return connection.execute(
            "SELECT id::text, email, name, role, active, created_at AT TIME ZONE 'UTC' FROM users ORDER BY id"
        ).fetchall()


def wanted(found: list[people_files.User]) -> list[tuple[Any, ...]]:
    return [(*list(user.values())[:5], user["created_at"].to_pydatetime()) for user in found]


def rejected(engine: Engine, job: Job) -> dict[int, list[str]]:
    with transaction(engine) as connection:
        return {
            each.line: [reason["code"] for reason in each.reasons] for each in rejects.every(connection, job.job_id)
        }


@pytest.mark.parametrize("way", WAYS)
def test_the_same_users_whatever_the_file(
    engine: Engine, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "RANGE_BYTES", 600)
    found = users(40)
    make, options = WAYS[way]
    job = imported(engine, "users", write(tmp_path / "file", make(found)), **told(**options))
    assert (job.status, rejected(engine, job)) == (JobState.COMPLETED, {}), job.last_error
    assert rows(engine) == wanted(found)


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_files_need_one_flag_at_most(engine: Engine, tmp_path: Path, kind: str) -> None:
    found = users(40)
    path = write(tmp_path / "file", ORDINARY[kind](found))
    seen = preview(None, Options("users"), RequestedFile.of(str(path)), settings.current())
    assert len(seen.remedy) <= 1
    assert all(f"--{name.replace('_', '-')}" in (seen.problem or "") for name in seen.remedy)
    assert (seen.judged, seen.rejected, len(seen.records)) == (40, 0, 10)
    assert {each.column for each in seen.columns} == set(COLUMNS)
    job = imported(engine, "users", path, reading=seen.reading)
    assert job.status is JobState.COMPLETED, job.last_error
    assert rows(engine) == wanted(found)


def test_columns_are_made_of_fields(engine: Engine, tmp_path: Path) -> None:
    text = (
        "Report of today\n;;\nFirst;Last name;Mail;Since;Points;Note\n"
        "Ada;Lovelace;ada@example.org;10.12.1815;1;x\n"
        "Bob;;bob@example.org;31.02.2026;1;x\n"
        "Cy;Young;NULL;1.2.2026;1;x\n"
        "Di;Doe;di@example.org;;many;x\n"
        "Ed;Eck;ed@example.org;1.2.2026;0;x\n"
    )
    options = told(
        skip_lines=2,
        map={"email": "mail", "created_at": "Since"},
        ignore=["note"],
        constants={"role": "reader"},
        expressions={"name": "first || coalesce(' ' || last_name, '')", "active": "points::int > 0"},
        dates={"created_at": "%d.%m.%Y"},
        nulls="NULL",
    )
    path = write(tmp_path / "file.csv", text.encode())
    job = imported(engine, "users", path, **options)
    assert rejected(engine, job) == {5: ["invalid_timestamp"], 6: ["missing_field"], 7: ["failed_expression"]}
    assert sorted((row[1], row[2], row[4], row[5].isoformat()) for row in rows(engine)) == [
        ("ada@example.org", "Ada Lovelace", True, "1815-12-10T00:00:00"),
        ("ed@example.org", "Ed Eck", False, "2026-02-01T00:00:00"),
    ]
    seen = preview(engine, Options("users", **options), RequestedFile.of(str(path)), settings.current())
    assert (seen.judged, seen.rejected, seen.left_out) == (5, 3, ("Note",))
    assert [each.expression for each in seen.columns if each.column == "active"] == ["points::int > 0"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("name); DROP TABLE users; --", "not one expression"),
        ("name) , (name", "not one expression"),
        ("(SELECT email FROM users LIMIT 1)", "cannot use subquery"),
        ("count(*)", "aggregate functions are not allowed"),
        ("generate_series(1, 3)::text", "set-returning functions are not allowed"),
        ("nothing || name", 'column "nothing" does not exist'),
        ("name ||", "syntax error"),
        ("'it''s' || E'\\' || name", "not one expression"),
        ("$$x$$", "not one expression"),
        ("name /* x", "not one expression"),
    ],
)
def test_an_expression_is_one_expression(engine: Engine, tmp_path: Path, expression: str, message: str) -> None:
    path = write(tmp_path / "file.csv", b"email,name\na@example.org,A\n")
    options = told(constants={"role": "reader"}, expressions={"name": expression})
    with pytest.raises(Exception, match=message):
        begun(engine, submitted(engine, "users", [path], **options))


def test_an_expression_writes_nothing(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "file.csv", b"email,name\na@example.org,A\n")
    evil = "name || query_to_xml('DELETE FROM job RETURNING 1', true, true, '')::text"
    job = imported(engine, "users", path, **told(constants={"role": "reader"}, expressions={"name": evil}))
    assert rejected(engine, job) == {2: ["failed_expression"]}


@pytest.mark.parametrize("way", ["xlsxwriter", "parquet", "escaped", "cp1252", "zip of many"])
def test_rejects_are_run_again_as_they_stood(engine: Engine, tmp_path: Path, way: str) -> None:
    found = [dict(user) for user in users(40)]
    for number in (3, 14, 25):
        found[number]["role"] = "captain"
    make, options = WAYS[way]
    path = write(tmp_path / "file", make(found))
    first = imported(engine, "users", path, **told(**options))
    assert first.status is JobState.COMPLETED_WITH_ERRORS, first.last_error
    assert list(rejected(engine, first).values()) == [["invalid_role"]] * 3
    with transaction(engine) as connection:
        connection.execute("DELETE FROM users WHERE email = 'user1@example.org'")
    chosen = settings.current()
    by = Actor("me", "cli", admin=True)
    again = replays.replay(engine, first.job_key, landing.place(chosen), access_of(chosen), by).job
    second = worked(engine, begun(engine, again))
    assert list(rejected(engine, second).values()) == [["invalid_role"]] * 3, second.last_error
    if way != "zip of many":
        _, pieces = outcomes.download(lambda: transaction(engine), first, outcomes.Outcome.FAILED)
        copy = write(tmp_path / "failed.csv", b"".join(pieces).replace(b"captain", b"author"))
        mended = imported(engine, "users", copy, **told(**options if way == "escaped" else {}))
        assert (mended.status, rejected(engine, mended)) == (JobState.COMPLETED, {})
        assert len(rows(engine)) == 39


def test_rows_of_tables_have_their_numbers(engine: Engine, tmp_path: Path) -> None:
    found = [dict(user) for user in users(30)]
    found[20]["role"] = "captain"
    sheet = write(tmp_path / "users.xlsx", workbook(found, engine="openpyxl"))
    assert rejected(engine, imported(engine, "users", sheet)) == {22: ["invalid_role"]}
    with transaction(engine) as connection:
        connection.execute("TRUNCATE users CASCADE")
    table = write(tmp_path / "users.parquet", people_files.parquet(found))
    assert rejected(engine, imported(engine, "users", table)) == {21: ["invalid_role"]}


@pytest.mark.parametrize("format_", ["parquet", "xlsx"])
def test_a_table_that_is_said_to_be_what_it_is(engine: Engine, tmp_path: Path, format_: str) -> None:
    found = users(3)
    table = write(tmp_path / "users", ORDINARY[format_](found))
    job = imported(engine, "users", table, format=format_)
    assert job.status is JobState.COMPLETED, job.last_error
    assert rows(engine) == wanted(found)
    with pytest.raises(InvalidInput, match=f"was said to be csv, but it looks like {format_}"):
        imported(engine, "users", table, format="csv")


def test_a_file_of_an_archive_that_is_no_good_is_left_out(engine: Engine, tmp_path: Path) -> None:
    found = users(4)
    data = zipped(("a.csv", text_of(found).encode()), ("b.csv", b"x,y\n1,2\n"), ("c.zip", zipped(("d.csv", b"x"))))
    job = imported(engine, "users", write(tmp_path / "many.zip", data))
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert rows(engine) == wanted(found)
    assert job.result is not None
    notes = {Path(file["source"]).name: file["note"] for file in job.result["files"]}
    assert "do not fit users" in notes["b.csv"]
    assert "an archive in an archive" in notes["c.zip"]
    assert "b.csv: " in notes["many.zip"]


def test_an_archive_is_planned_again(engine: Engine, tmp_path: Path) -> None:
    """A plan that was cut short comes to the same files, also if a copy of one of them is lost."""
    found = users(6)
    data = zipped(("a.csv", text_of(found[:3]).encode()), ("b.csv", text_of(found[3:]).encode()))
    job = submitted(engine, "users", [write(tmp_path / "two.zip", data)])
    with transaction(engine) as connection:
        job = jobs.start(connection, job.job_key)
    request = ImportRequest.from_params(job.params)
    chosen = settings.current()
    for _ in range(2):
        files = planning.landed(job.job_key, request, planning.left_to_land(engine, job, chosen), chosen)
        planning.note_files(engine, job, planning.in_order(files))
        copies = sorted((chosen.home / "landed" / job.job_key).iterdir())
        assert len(copies) == 2
        copies[1].unlink()
    planning.plan(engine, job)
    assert worked(engine, refreshed(engine, job)).status is JobState.COMPLETED
    assert rows(engine) == wanted(found)
