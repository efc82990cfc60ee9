"""Taking an import back takes what it added and nothing else."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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
from bulk_pipelines.resources import reflection
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


UNNOTED = {
    "the trigger is gone": ("DROP TRIGGER import_revised ON users", "users"),
    "the trigger is disabled": ("ALTER TABLE users DISABLE TRIGGER import_revised", "users"),
    "the rows are in a child": (
        """CREATE TABLE more_users () INHERITS (users);
        WITH moved AS (DELETE FROM users RETURNING *) INSERT INTO more_users SELECT * FROM moved""",
        "more_users",
    ),
}


@pytest.mark.parametrize("way", UNNOTED)
def test_nothing_is_taken_back_where_changes_are_not_noted(engine: Engine, tmp_path: Path, way: str) -> None:
    finished(engine, written(tmp_path / "users.csv", ["changed", "free"]))
    statement, table = UNNOTED[way]
    with pool.transaction(engine) as connection:
        connection.execute(statement.encode())
        connection.execute("UPDATE users SET name = 'by hand' WHERE name = 'changed'")
    with pytest.raises(Conflict, match=f"changes of rows of {table} are not noted"):
        list(undo.take_back(begin_of(engine), USERS, 1))
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (2,)


GUEST = """
DO $$ BEGIN CREATE ROLE undoing; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
GRANT ALL ON SCHEMA bulk, public TO undoing; GRANT ALL ON ALL TABLES IN SCHEMA bulk, public TO undoing;
CREATE SCHEMA secret; CREATE TABLE secret.orders (buyer uuid REFERENCES users ON DELETE {how});
INSERT INTO secret.orders SELECT id FROM users WHERE name = 'needed'
"""
HIDDEN = {
    "no right to the schema": "GRANT SELECT ON secret.orders TO undoing",
    "no right to the table": "GRANT USAGE ON SCHEMA secret TO undoing",
    "row-level security": "GRANT USAGE ON SCHEMA secret TO undoing; GRANT SELECT ON secret.orders TO undoing;"
    " ALTER TABLE secret.orders ENABLE ROW LEVEL SECURITY",
}


@contextmanager
def as_guest(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    with pool.transaction(engine) as connection:
        connection.execute("SET LOCAL ROLE undoing")
        yield connection


@pytest.mark.parametrize("rights", HIDDEN)
@pytest.mark.parametrize("how", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_rows_that_this_role_cannot_see_are_not_changed_beneath(
    engine: Engine, tmp_path: Path, how: str, rights: str
) -> None:
    finished(engine, written(tmp_path / "users.csv", ["needed", "free"]))
    with pool.transaction(engine) as connection:
        connection.execute(f"{GUEST.format(how=how)}; {HIDDEN[rights]}".encode(), prepare=False)
    said = "rows of secret.orders refer to users and would change with it, and this role cannot see them: GRANT SELECT"
    with as_guest(engine) as connection, pytest.raises(Conflict, match=said):
        undo.count(connection, USERS, 1)
    with pytest.raises(Conflict, match=said):
        list(undo.take_back(lambda: as_guest(engine), USERS, 1))
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT name FROM users JOIN secret.orders ON buyer = id").fetchall() == [("needed",)]


def test_rows_that_hidden_ones_hold_stay(engine: Engine, tmp_path: Path) -> None:
    finished(engine, written(tmp_path / "users.csv", ["needed", "free"]))
    with pool.transaction(engine) as connection:
        connection.execute(GUEST.format(how="NO ACTION").encode(), prepare=False)
    assert sum(undo.take_back(lambda: as_guest(engine), USERS, 1)) == 1
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT name FROM users").fetchall() == [("needed",)]


def test_a_row_of_a_partition_that_is_referred_to_stays(engine: Engine, tmp_path: Path) -> None:
    """The row stays even if the foreign key names the partition, and not its table."""
    with pool.transaction(engine) as connection:
        connection.execute(
            b"""
            CREATE SCHEMA parted;
            CREATE TABLE parted.days (id integer, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
            CREATE TABLE parted.early PARTITION OF parted.days FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
            CREATE TABLE parted.late PARTITION OF parted.days FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
            CREATE TABLE parted.notes (
                id integer, day date, FOREIGN KEY (id, day) REFERENCES parted.early ON DELETE CASCADE
            );
            SELECT trace_imports('parted.days')
            """,
            prepare=False,
        )
        declared = reflection.reflect(connection, "parted.days")
    path = tmp_path / "days.csv"
    path.write_text("id,day\n1,2026-01-05\n2,2026-01-06\n3,2026-02-05\n")
    prepared(engine, path, declared).load().reconcile()
    with pool.transaction(engine) as connection:
        connection.execute("INSERT INTO parted.notes VALUES (1, '2026-01-05')")
        assert undo.count(connection, declared, 1) == Undoable(free=2, changed=0, referred_to=1)
    assert sum(undo.take_back(begin_of(engine), declared, 1)) == 2
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT id FROM parted.notes JOIN parted.days USING (id, day)").fetchall() == [(1,)]


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
    run.reconcile()
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT import_line FROM users JOIN orders ON buyer = id").fetchall() == [(3,)]
    assert run.codes() == {2: ["duplicate_email"]}
