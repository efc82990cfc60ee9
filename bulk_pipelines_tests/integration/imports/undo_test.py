"""Taking an import back takes what it added and nothing else."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports.afterwards import undo
from bulk_pipelines.imports.afterwards.undo import Undoable
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources.users import USERS
from bulk_pipelines_tests.scenes.import_runs import finished, prepared


def begin_of(engine: Engine) -> Any:
    def begin() -> AbstractContextManager[psycopg.Connection[Any]]:
        return pool.transaction(engine)

    return begin


def written(path: Path, names: Iterator[str] | list[str]) -> Path:
    path.write_text("email,name,role\n" + "".join(f"{name}@x.org,{name},author\n" for name in names))
    return path


def test_what_others_changed_or_refer_to_stays(engine: Engine, tmp_path: Path) -> None:
    finished(engine, written(tmp_path / "first.csv", ["other"]), job_id=1)
    finished(engine, written(tmp_path / "second.csv", ["free", "changed", "author", "merged"]), job_id=2)
    finished(engine, written(tmp_path / "third.csv", ["merged"]), mode=Mode.UPSERT, match_on="email", job_id=3)
    with pool.transaction(engine) as connection:
        connection.execute("UPDATE users SET name = 'new' WHERE email = 'changed@x.org'")
        connection.execute(
            "INSERT INTO articles (id, slug, title, body, author_id, status)"
            " SELECT gen_random_uuid(), 'a', 'A', 'text', id, 'draft' FROM users WHERE email = 'author@x.org'"
        )
        assert undo.count(connection, USERS, 2) == Undoable(free=1, changed=1, referred_to=1)
    assert sum(undo.take_back(begin_of(engine), USERS, 2)) == 1
    with pool.transaction(engine) as connection:
        assert undo.count(connection, USERS, 2) == Undoable(free=0, changed=1, referred_to=1)
        left = connection.execute("SELECT name FROM users ORDER BY name").fetchall()
    assert left == [("author",), ("merged",), ("new",), ("other",)]


def test_many_rows_go_in_pieces(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "PAGES", 3)
    finished(engine, written(tmp_path / "one.csv", [f"one{number}" for number in range(500)]), job_id=1)
    finished(engine, written(tmp_path / "two.csv", [f"two{number}" for number in range(2_000)]), job_id=2)
    finished(engine, written(tmp_path / "three.csv", [f"three{number}" for number in range(500)]), job_id=3)
    pieces = list(undo.take_back(begin_of(engine), USERS, 2))
    assert sum(pieces) == 2_000
    assert max(pieces) < 600
    assert list(undo.take_back(begin_of(engine), USERS, 2)) == []
    with pool.transaction(engine) as connection:
        found = connection.execute("SELECT import_job, count(*) FROM users GROUP BY 1 ORDER BY 1").fetchall()
    assert found == [(1, 500), (3, 500)]


def test_an_upsert_cannot_be_taken_back() -> None:
    undo.check(Mode.INSERT, USERS)
    with pytest.raises(Conflict, match="only insert can"):
        undo.check(Mode.UPSERT, USERS)


KEEP = """
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF OLD.name LIKE 'kept%' THEN {how} END IF; RETURN OLD; END $$;
CREATE TRIGGER keep BEFORE DELETE ON users FOR EACH ROW EXECUTE FUNCTION keep()
"""


REFER = """
CREATE TABLE public.orders (buyer uuid REFERENCES users DEFERRABLE INITIALLY DEFERRED);
INSERT INTO orders SELECT id FROM users WHERE name LIKE 'kept%'
"""


@pytest.mark.parametrize(
    "way",
    [
        KEEP.format(how="RAISE EXCEPTION 'it stays' USING ERRCODE = '42501';"),
        KEEP.format(how="RETURN NULL;"),
        REFER,
    ],
    ids=["raises", "returns null", "an undeclared reference"],
)
def test_what_the_table_does_not_give_back_stays(engine: Engine, tmp_path: Path, way: str) -> None:
    names = [f"{'kept' if number % 25 == 0 else 'free'}{number}" for number in range(100)]
    finished(engine, written(tmp_path / "users.csv", names))
    with pool.transaction(engine) as connection:
        connection.execute(way.encode())
    assert sum(undo.take_back(begin_of(engine), USERS, 1)) == 96
    with pool.transaction(engine) as connection:
        left = connection.execute("SELECT name FROM users ORDER BY import_line").fetchall()
    assert left == [("kept0",), ("kept25",), ("kept50",), ("kept75",)]


@pytest.mark.parametrize("how", ["CASCADE", "SET NULL"])
def test_rows_that_somebody_refers_to_since_do_not_take_others_with_them(
    engine: Engine, tmp_path: Path, how: str
) -> None:
    finished(engine, written(tmp_path / "users.csv", ["needed", "free"]))
    with pool.transaction(engine) as connection:
        connection.execute(f"CREATE TABLE public.orders (buyer uuid REFERENCES users ON DELETE {how})".encode())
        connection.execute("INSERT INTO orders SELECT id FROM users WHERE name = 'needed'")
        assert undo.count(connection, USERS, 1) == Undoable(free=1, changed=0, referred_to=1)
    assert sum(undo.take_back(begin_of(engine), USERS, 1)) == 1
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT name FROM users JOIN orders ON buyer = id").fetchall() == [("needed",)]
        connection.execute("DROP TABLE public.orders")
    assert sum(undo.take_back(begin_of(engine), USERS, 1)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE users RENAME TO people", "is not there any more"),
        ("ALTER TABLE users DROP COLUMN import_revised CASCADE", "do not say any more where they come from"),
        ("ALTER TABLE users RENAME TO people; CREATE VIEW users AS SELECT * FROM people", "do not say any more"),
    ],
)
def test_a_table_that_is_no_longer_what_it_was_is_told(engine: Engine, tmp_path: Path, change: str, said: str) -> None:
    finished(engine, written(tmp_path / "users.csv", ["one"]))
    with pool.transaction(engine) as connection:
        connection.execute(change.encode(), prepare=False)
        with pytest.raises(Conflict, match=said):
            undo.count(connection, USERS, 1)
    with pytest.raises(Conflict, match=said):
        list(undo.take_back(begin_of(engine), USERS, 1))


def test_a_row_that_came_too_early_takes_no_row_of_others_with_it(engine: Engine, tmp_path: Path) -> None:
    """A later record is loaded first, and somebody refers to its row before the earlier one comes: so it stays."""
    run = prepared(engine, written(tmp_path / "users.csv", ["same", "same", "other"]), range_bytes=20)
    first, *others = run.ranges
    for each in others:
        run.load_range(each)
    with pool.transaction(engine) as connection:
        connection.execute("CREATE TABLE public.orders (buyer uuid REFERENCES users ON DELETE CASCADE)")
        connection.execute("INSERT INTO orders SELECT id FROM users WHERE name = 'same'")
    run.load_range(first)
    run.settle()
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT import_line FROM users JOIN orders ON buyer = id").fetchall() == [(3,)]
    assert run.codes() == {2: ["duplicate_email"]}
