"""Imports of several files, and of very many."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import rejects
from bulk_pipelines_tests.whole_imports import imported

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
