"""Tables that refuse rows in every way PostgreSQL knows: each refusal names its row, and the others are loaded."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.terms import Mode
from bulk_pipelines.resources.users import USERS
from bulk_pipelines_tests.import_runs import Run, finished, prepared, rows

COUNT = 60
BAD = (7, 31, 32, 60)
BAD_LINES = {number + 1: ["refused_by_table"] for number in BAD}

RAISE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.email LIKE 'bad%%' THEN
        {action}
    END IF;
    RETURN {answer};
END $$;
CREATE {kind} TRIGGER refuse {time} INSERT OR UPDATE ON users {deferred} FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def trigger(action: str, *, time: str = "BEFORE", answer: str = "NEW") -> str:
    return RAISE.format(action=action, kind="", time=time, answer=answer, deferred="")


def deferred(action: str) -> str:
    return RAISE.format(
        action=action, kind="CONSTRAINT", time="AFTER", answer="NULL", deferred="DEFERRABLE INITIALLY DEFERRED"
    )


CODES = ["01000", "02000", "03000", "08006", "08P01", "0A000", "22P03", "25006", "28000", "38000", "39000", "40001"]
CODES += ["40P01", "42501", "42P01", "44000", "53100", "54000", "55P03", "57014", "57P01", "58030", "F0000", "HV000"]
CODES += ["P0002", "P0004", "U0001", "XX000"]
"""One for each class that PostgreSQL knows and one of our own, and those that mean something to us."""

WAYS = {
    "check": "ALTER TABLE users ADD CONSTRAINT no_bad CHECK (email NOT LIKE 'bad%%')",
    "raise": trigger("RAISE EXCEPTION 'no bad ones';"),
    "raise after": trigger("RAISE EXCEPTION 'no bad ones';", time="AFTER", answer="NULL"),
    "assert": trigger("ASSERT false, 'no bad ones';"),
    "deferred trigger": deferred("RAISE EXCEPTION 'no bad ones';"),
    "deferred assert": deferred("ASSERT false;"),
    "index row too large": """
        CREATE FUNCTION long_key(email text) RETURNS text IMMUTABLE LANGUAGE sql AS
            $$ SELECT CASE WHEN email LIKE 'bad%%' THEN (
                SELECT string_agg(md5(email || each), '') FROM generate_series(1, 300) AS each) END $$;
        CREATE INDEX long_keys ON users (long_key(email))""",
    "error in a function": trigger("PERFORM 1 / (length(NEW.email) - length(NEW.email));"),
    "missing table": trigger("INSERT INTO audit VALUES (NEW.id);"),
    "no right in a trigger": trigger("PERFORM count(*) FROM secrets;") + "; CREATE TABLE secrets (x int);",
    "returns null": trigger("RETURN NULL;"),
}


def users(path: Path, name: str = "Name", bad: tuple[int, ...] = BAD) -> Path:
    lines = [
        f"{uuid.UUID(int=number)},{'bad' if number in bad else 'user'}{number}@x.org,{name} {number},reader"
        for number in range(1, COUNT + 1)
    ]
    path.write_text("\n".join(["id,email,name,role", *lines]) + "\n")
    return path


def prepare(engine: Engine, statements: str) -> None:
    with pool.transaction(engine) as connection:
        connection.execute(statements.replace("%%", "%").encode(), prepare=False)


@pytest.fixture
def importer(engine: Engine, database_url: str) -> Iterator[Engine]:
    """A pool of a role that is not above the rules."""
    prepare(
        engine,
        """
        DO $$ BEGIN CREATE ROLE importer LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO importer;
        """,
    )
    made = pool.connect(f"{database_url}{'&' if '?' in database_url else '?'}options=-c%20role%3Dimporter")
    yield made
    made.dispose()


def check(run: Run, mode: Mode, expected: dict[int, list[str]] = BAD_LINES) -> None:
    """What every import of `users` must come to, whoever refused the bad ones."""
    assert run.codes() == expected, run.rejected()[:2]
    good = COUNT - len(expected)
    if mode is Mode.VALIDATE:
        assert run.counts == Counts(read=COUNT, rejected=len(expected), valid=good)
        assert rows(run.engine, USERS) == []
    else:
        assert run.counts == Counts(read=COUNT, loaded=good, rejected=len(expected))
        assert sorted(row[-2] for row in rows(run.engine, USERS)) == [
            line for line in range(2, COUNT + 2) if line not in expected
        ]
    with pool.transaction(run.engine) as connection:
        assert connection.execute("SELECT count(*) FROM users_aside").fetchone() == (0,)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_names_its_row(engine: Engine, importer: Engine, tmp_path: Path, way: str, mode: Mode) -> None:
    prepare(engine, WAYS[way])
    run = finished(importer, users(tmp_path / "users.csv"), mode=mode, rows=50)
    check(run, mode)
    assert all(reason["detail"] for _, _, (reason,) in run.rejected())


@pytest.mark.parametrize("mode", [Mode.INSERT, Mode.UPSERT])
@pytest.mark.parametrize("code", CODES)
def test_a_trigger_raises_whatever_code_it_likes(engine: Engine, tmp_path: Path, code: str, mode: Mode) -> None:
    prepare(engine, trigger(f"RAISE EXCEPTION 'no bad ones' USING ERRCODE = '{code}';"))
    run = finished(engine, users(tmp_path / "users.csv"), mode=mode, rows=50)
    check(run, mode)
    assert {reason["detail"] for _, _, (reason,) in run.rejected()} == {"no bad ones"}


@pytest.mark.parametrize("mode", list(Mode))
def test_row_level_security(engine: Engine, importer: Engine, tmp_path: Path, mode: Mode) -> None:
    prepare(
        engine,
        "ALTER TABLE users ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY everything ON users USING (true) WITH CHECK (email NOT LIKE 'bad%%')",
    )
    run = finished(importer, users(tmp_path / "users.csv"), mode=mode, rows=50)
    check(run, mode)
    assert "row-level security" in run.rejected()[0][2][0]["detail"]


@pytest.mark.parametrize("mode", [Mode.INSERT, Mode.UPSERT])
def test_deferred_constraints(engine: Engine, tmp_path: Path, mode: Mode) -> None:
    """A unique key and a reference that nobody declared, both checked at commit unless told otherwise."""
    prepare(
        engine,
        "ALTER TABLE users ADD CONSTRAINT names UNIQUE (name) DEFERRABLE INITIALLY DEFERRED;"
        "CREATE TABLE known (email text PRIMARY KEY);"
        "INSERT INTO known SELECT 'user' || each || '@x.org' FROM generate_series(1, 100) AS each;"
        "ALTER TABLE users ADD CONSTRAINT known FOREIGN KEY (email) REFERENCES known DEFERRABLE INITIALLY DEFERRED;"
        "INSERT INTO users (id, email, name, role)"
        " VALUES (gen_random_uuid(), 'user99@x.org', 'Name 5', 'reader')",
    )
    run = finished(engine, users(tmp_path / "users.csv"), mode=mode, rows=50)
    assert run.codes() == {6: ["refused_by_table"]} | BAD_LINES
    assert run.counts == Counts(read=COUNT, loaded=COUNT - 5, rejected=5)


def test_rows_that_a_trigger_puts_elsewhere_are_loaded(engine: Engine, tmp_path: Path) -> None:
    """Partitions as they were made before PostgreSQL had them: the trigger answers NULL, and the rows are there."""
    prepare(
        engine,
        "CREATE TABLE users_too () INHERITS (users);"
        "CREATE FUNCTION route() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO users_too VALUES (NEW.*); RETURN NULL; END $$;"
        "CREATE TRIGGER route BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION route()",
    )
    run = finished(engine, users(tmp_path / "users.csv"), rows=50)
    assert run.counts == Counts(read=COUNT, loaded=COUNT)


def test_a_trigger_makes_two_keys_one(engine: Engine, tmp_path: Path) -> None:
    """The comparison of keys cannot see it coming: the row is told, and nothing is tried for ever."""
    prepare(engine, trigger("NEW.email := 'user1@x.org';"))
    for mode, job in ((Mode.INSERT, 1), (Mode.UPSERT, 2)):
        run = finished(engine, users(tmp_path / "users.csv", bad=(5,)), mode=mode, job_id=job, rows=50)
        assert run.codes()[6] in (["duplicate_id", "duplicate_email"], ["refused_by_table"])
        assert len(rows(engine, USERS)) == COUNT - 1


@pytest.mark.parametrize("how", ["RAISE EXCEPTION 'rows stay';", "RETURN NULL;"])
def test_a_table_that_gives_no_row_back(engine: Engine, tmp_path: Path, how: str) -> None:
    """The later of two records was loaded first and cannot be taken back: it stays, and the earlier one is told."""
    prepare(
        engine,
        f"CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF OLD.name LIKE 'Kept%%' THEN {how} END IF; RETURN OLD; END $$;"
        "CREATE TRIGGER stay BEFORE DELETE ON users FOR EACH ROW EXECUTE FUNCTION stay()",
    )
    path = tmp_path / "users.csv"
    people = [("a", "First"), ("b", "First"), ("a", "Kept"), ("b", "Free")]
    lines = [f"{uuid.UUID(int=number)},{email}@x.org,{name},reader" for number, (email, name) in enumerate(people)]
    path.write_text("\n".join(["id,email,name,role", *lines]) + "\n")
    run = prepared(engine, path, range_bytes=1)
    for piece in reversed(run.ranges):
        run.load_range(piece)
    run.settle()
    assert run.codes() == {2: ["duplicate_email"], 5: ["duplicate_email"]}
    assert run.counts == Counts(read=4, loaded=2, rejected=2)
