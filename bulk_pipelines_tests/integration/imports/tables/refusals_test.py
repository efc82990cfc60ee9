"""Tables that refuse rows in every way PostgreSQL knows: each refusal names its row, and the others are loaded."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database import pool, session
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.resources.users import USERS
from bulk_pipelines_tests.scenes.import_jobs import Imports, counts, file_of, prepare
from bulk_pipelines_tests.scenes.import_runs import Run, finished, prepared, rows
from bulk_pipelines_tests.scenes.listening import listening

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


@pytest.mark.parametrize("mode", [Mode.INSERT, Mode.UPSERT])
def test_rows_that_a_trigger_leaves_out_are_found_by_their_keys_alone(
    engine: Engine, tmp_path: Path, mode: Mode
) -> None:
    """Else each batch would look through all that the import has written so far."""
    prepare(engine, WAYS["returns null"])
    said: list[str] = []
    with listening(engine, said.append) as pool_that_tells:
        run = finished(pool_that_tells, users(tmp_path / "users.csv"), mode=mode, rows=50)
    check(run, mode)
    assert [each for each in said if "import_line = ANY" in each and " s WHERE s." in each], "they are asked for by key"
    assert not [each for each in said if each.startswith('SELECT import_line FROM "users" WHERE import_job')]


OTHER_SCHEMA = """
CREATE SCHEMA other;
CREATE TABLE other.users (LIKE public.users);
ALTER TABLE users ADD CONSTRAINT no_bad CHECK (email NOT LIKE 'bad%%');
"""


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("bad", [(), BAD], ids=["all good", "some bad"])
@pytest.mark.parametrize("setting", ["SET LOCAL search_path = other", "SET search_path = other, public"])
def test_a_trigger_that_looks_elsewhere_afterwards(
    engine: Engine, tmp_path: Path, mode: Mode, bad: tuple[int, ...], setting: str
) -> None:
    """A trigger sets the schemas to be looked in, and does not set them back: the import goes by its own."""
    prepare(engine, OTHER_SCHEMA)
    prepare(engine, trigger("NULL;", time="AFTER").replace("IF NEW", f"{setting}; IF NEW"))
    run = finished(engine, users(tmp_path / "users.csv", bad=bad), mode=mode, rows=10)
    check(run, mode, {number + 1: ["refused_by_table"] for number in bad})
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM other.users").fetchone() == (0,)
        assert connection.execute("SHOW search_path").fetchone() == (session.first(session.SEARCH_PATH),)


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


def test_two_upserts_of_the_same_new_keys_at_once(engine: Engine, tmp_path: Path) -> None:
    """Whoever comes second finds the rows of the first, and changes them."""
    path = tmp_path / "users.csv"
    path.write_text("email,name,role\n" + "".join(f"user{number}@x.org,Name,reader\n" for number in range(2_000)))
    runs = [prepared(engine, path, mode=Mode.UPSERT, match_on="email", job_id=job) for job in (1, 2)]
    for run in runs:
        run.load()
    with ThreadPoolExecutor(2) as executor:
        for future in [executor.submit(run.reconcile) for run in runs]:
            future.result(timeout=120)
    assert sorted((run.counts for run in runs), key=lambda counts: counts.unchanged) == [
        Counts(read=2_000, loaded=2_000),
        Counts(read=2_000, loaded=2_000, unchanged=2_000),
    ]
    assert len(rows(engine, USERS)) == 2_000


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
    run.reconcile()
    assert run.codes() == {2: ["duplicate_email"], 5: ["duplicate_email"]}
    assert run.counts == Counts(read=4, loaded=2, rejected=2)


# Whole imports


PEOPLE = [(f"{'bad' if number == 3 else 'user'}{number}@x.org", "Name", "reader") for number in range(6)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("way", ["deferred trigger", "assert", "returns null"])
def test_an_import_into_a_table_that_refuses_comes_to_its_end(imports: Imports, way: str, mode: str) -> None:
    prepare(imports.engine, WAYS[way])
    job = imports.worked(imports.planned(file_of(*PEOPLE), mode=mode))
    assert (job.status, job.dlq_items) == (JobState.COMPLETED_WITH_ERRORS, 0)
    assert counts(job) == {"read": 6, "loaded": 5, "rejected": 1}
    assert imports.rejects(job) == {5: ("bad3@x.org,Name,reader", ["refused_by_table"])}


def test_a_failure_says_why_and_where_there_is_more(
    imports: Imports, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    prepare(imports.engine, WAYS["raise"])
    job = imports.worked(imports.planned(file_of(PEOPLE[3])))
    assert (job.status, counts(job)) == (JobState.FAILED, {"read": 1, "rejected": 1})
    assert job.last_error == (
        "nothing could be loaded: the only record was rejected, the one in line 2 for refused_by_table: no bad ones:"
        f" bulk import errors {job.job_key}"
    )
    shown = CliRunner().invoke(main, ["import", "errors", job.job_key])
    assert shown.output.startswith("line 2: refused_by_table no bad ones  ")
    imports.buried("user1@x.org")
    job = imports.worked(imports.planned(file_of(PEOPLE[1])))
    assert str(job.last_error).startswith("nothing was loaded, as 1 of 1 range could not be loaded (no room ")
    assert str(job.last_error).endswith(f": bulk dlq list --job {job.job_key}")
    shown = CliRunner().invoke(main, ["import", "errors", job.job_key])
    assert f"1 of 1 range could not be loaded: bulk dlq list --job {job.job_key}" in shown.output
