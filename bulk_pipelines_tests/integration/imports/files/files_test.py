"""Imports of several files, and of very many."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import streaming
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.report import report
from bulk_pipelines_tests.scenes.whole_imports import begun, imported, submitted

pytestmark = pytest.mark.usefixtures("home")

AUTHOR = "00000000-0000-4000-8000-000000000001"


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.fixture
def article(engine: Engine) -> str:
    """An article to comment on; its id."""
    with transaction(engine) as connection:
        connection.execute("INSERT INTO users (id, email, name, role) VALUES (%s, 'a@x.org', 'A', 'author')", [AUTHOR])
        row = connection.execute(
            "INSERT INTO articles (id, slug, title, body, author_id, status)"
            " VALUES (gen_random_uuid(), 'a', 'T', 'B', %s, 'draft') RETURNING id::text",
            [AUTHOR],
        ).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("name", ["comments.csv", "comments.ndjson", "comments.json"])
def test_a_file_gives_the_same_ids_wherever_it_stands(engine: Engine, tmp_path: Path, article: str, name: str) -> None:
    other = written(tmp_path / "other.csv", f"article_id,user_id,body\n{article},{AUTHOR},Other\n")
    bodies = ["One", "Two"]
    records = [f'{{"article_id": "{article}", "user_id": "{AUTHOR}", "body": "{body}"}}' for body in bodies]
    texts = {
        "comments.csv": "article_id,user_id,body\n" + "".join(f"{article},{AUTHOR},{body}\n" for body in bodies),
        "comments.ndjson": "\n".join(records),
        "comments.json": f"[{','.join(records)}]",
    }
    comments = written(tmp_path / name, texts[name])
    assert imported(engine, "comments", comments).status is JobState.COMPLETED
    job = imported(engine, "comments", other, comments)
    with transaction(engine) as connection:
        assert connection.execute("SELECT body FROM comments ORDER BY body").fetchall() == [
            ("One",),
            ("Other",),
            ("Two",),
        ]
        codes = [each.reasons[0]["code"] for each in rejects.every(connection, job.job_id)]
    assert codes == ["duplicate_id", "duplicate_id"]


def user_files(folder: Path, count: int) -> list[Path]:
    return [
        written(folder / f"{number:05}.csv", f"email,name,role\nu{number}@x.org,N,reader\n") for number in range(count)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "name_length"), [pytest.param(980, 980, id="long names"), pytest.param(7_600, 0, id="short names")]
)
def test_an_import_of_very_many_files_ends(engine: Engine, tmp_path: Path, count: int, name_length: int) -> None:
    """The request names as many files as it can. The result names some of them, those that were left out before
    others."""
    folder = tmp_path
    while len(str(folder)) < name_length - 1:
        folder /= "x" * min(200, name_length - len(str(folder)) - 1)
    folder.mkdir(parents=True, exist_ok=True)
    sources = user_files(folder, count)
    written(sources[count // 2], "")
    job = imported(engine, "users", *sources)
    assert job.status is JobState.COMPLETED_WITH_ERRORS, job.last_error
    assert job.result is not None
    assert (job.result["loaded"], job.result["file_count"], job.result["files_left_out"]) == (count - 1, count, 1)
    named = [file["source"] for file in job.result["files"]]
    assert len(named) == report.FILES_SHOWN
    assert (named[0], named[-1]) == (str(sources[0]), str(sources[count // 2]))
    assert report.report(engine, job).sources[-1] == f"{count - report.FILES_SHOWN:,} others"


def test_notes_of_files_that_are_no_good_are_short(engine: Engine, tmp_path: Path) -> None:
    columns = [f"column_{number:05}" for number in range(6_000)]
    bad = [written(tmp_path / f"{number}.csv", ",".join(columns) + "\n") for number in range(10)]
    twice = written(tmp_path / "twice.csv", ",".join(columns * 2) + "\n")
    job = imported(engine, "users", *bad, twice, *user_files(tmp_path, 1))
    assert job.status is JobState.COMPLETED_WITH_ERRORS, job.last_error
    assert job.result is not None
    notes = [file["note"] for file in job.result["files"]]
    assert '"column_00009" and 5,990 more (--ignore-extra leaves them out' in notes[0]
    assert "missing: email, name, role" in notes[0]
    assert '"column_00009" and 5,990 more (--ignore-extra leaves them out' in notes[10]
    assert notes[11] is None


def test_all_files_are_no_good(engine: Engine, tmp_path: Path) -> None:
    bad = [written(tmp_path / f"{number}.csv", "x" * 100_000 + "\n") for number in range(10)]
    with pytest.raises(InvalidInput) as found:
        begun(engine, submitted(engine, "users", bad))
    assert len(str(found.value)) < 3_000


@pytest.mark.parametrize("format_", Format)
def test_an_export_of_an_empty_table_is_refused_and_left_out_among_others(
    engine: Engine, tmp_path: Path, format_: Format
) -> None:
    """No format is better off because it has a header or a schema."""
    empty = tmp_path / "empty"
    empty.write_bytes(b"".join(streaming.stream(engine, ExportRequest("users", format_))))
    with pytest.raises(InvalidInput, match="no records|the file is empty"):
        imported(engine, "users", empty)
    job = imported(engine, "users", empty, written(tmp_path / "users.csv", "email,name,role\na@x.org,A,reader\n"))
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert job.result is not None
    assert job.result["loaded"] == 1
