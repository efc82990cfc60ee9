"""Everything of ours stands in a schema of its own, and lives with whatever people have in their database."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from bulk_pipelines import doctor
from bulk_pipelines.cli import main
from bulk_pipelines.database import migrations, moving, pool, ready, samples
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict, InvalidInput, Unavailable
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.resources import adoption
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.integration.database.migrations_test import query, schema
from bulk_pipelines_tests.scenes import former
from bulk_pipelines_tests.scenes.import_jobs import Imports

FILES = sorted(migrations.MIGRATIONS.glob("*.sql"))
STANDING = """
SELECT relname::text FROM pg_class WHERE relnamespace = '{0}'::regnamespace AND relkind IN ('r', 'p', 'S', 'v')
UNION SELECT typname::text FROM pg_type WHERE typnamespace = '{0}'::regnamespace AND typtype = 'e'
UNION SELECT proname::text FROM pg_proc WHERE pronamespace = '{0}'::regnamespace ORDER BY 1
"""


def standing(url: str, name: str) -> set[str]:
    return {str(found) for (found,) in query(url, STANDING.format(name))}


def names() -> set[str]:
    """What ours are called, but for the sequences of identity columns and of yoyo, which follow their tables."""
    return set(moving.names_of(FILES)) - {"prepare_for_imports", "index_data_aside", "yoyo_lock"}


def test_nothing_of_ours_stands_among_the_tables_of_people(empty_database_url: str) -> None:
    assert ready.migrated(Settings(database_url=empty_database_url), empty_database_url)
    assert standing(empty_database_url, "public") == set()
    here = standing(empty_database_url, "bulk")
    assert {each for each in here if not each.endswith("_seq")} == names()


def test_an_embedded_database_has_the_samples(empty_database_url: str) -> None:
    ready.migrated(Settings(), empty_database_url)
    assert standing(empty_database_url, "public") == set(samples.SAMPLES)


@pytest.mark.parametrize("name", ["public", "pg_ours", "dagster", "Ours", 'a"b', "information_schema", "a" * 64])
def test_a_schema_that_cannot_be_ours_is_refused(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("BULK_SCHEMA", name)
    with pytest.raises(InvalidInput, match="BULK_SCHEMA: .* cannot be the schema of this program"):
        migrations.apply(empty_database_url)


THEIRS = """
CREATE TYPE job_status AS ENUM ('open', 'done');
CREATE TABLE job (id integer PRIMARY KEY, title text NOT NULL, status job_status NOT NULL DEFAULT 'open', n numeric(4));
CREATE TABLE audit (job integer, what text);
CREATE TABLE event (event_id text);
CREATE TABLE rejected_row (note text);
CREATE TABLE import_aside_1 (note text);
CREATE FUNCTION note_job_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit SELECT coalesce(NEW.id, OLD.id), TG_OP;
    RETURN NULL;
END
$$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON job FOR EACH ROW EXECUTE FUNCTION note_job_end();
CREATE FUNCTION may_be(job_status) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN PERFORM 'open'::job_status; RETURN (SELECT count(*) >= 0 FROM rejected_row WHERE note IS NULL); END $$;
ALTER TABLE job ADD CHECK (may_be(status));
"""
"""Tables, types and functions of people that are called as ours are, and name each other as people do."""


@pytest.fixture
def crowded(empty_database_url: str) -> str:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(THEIRS.encode())
    migrations.apply(empty_database_url)
    return empty_database_url


def loaded(imports: Imports, table: str, text: str, **options: Any) -> Job:
    with transaction(imports.engine) as connection:
        declared = adoption.of_table(connection, table)
    return imports.worked(imports.planned(text, resource=declared.name, declaration=declared, **options))


@pytest.mark.parametrize("table", ["job", "public.job"])
def test_tables_of_people_may_be_called_as_ours(crowded: str, tmp_path: Path, table: str) -> None:
    engine = pool.connect(crowded)
    imports = Imports(engine, tmp_path)
    first = loaded(imports, table, "id,title,status\n1,one,open\n2,two,lost\n2,again,done\n3,three,done\n3,late,done\n")
    again = loaded(imports, table, "id,title,n\n1,uno,1\n4,quattro,12345\n5,cinque,5\n", mode="upsert")
    tried = loaded(imports, table, "id,title,status\n1,one,open\n9,nine,open\n", validate_only=True)
    assert [each.status for each in (first, again, tried)] == ["COMPLETED_WITH_ERRORS"] * 3
    assert query(crowded, "SELECT id, title, status::text, n FROM public.job ORDER BY id") == [
        (1, "uno", "open", 1),
        (2, "again", "done", None),
        (3, "three", "done", None),
        (5, "cinque", "open", 5),
    ]
    noted = {("INSERT", each) for each in (1, 2, 3, 5)} | {("UPDATE", 1)}
    assert {(what, job) for what, job in query(crowded, "SELECT what, job FROM public.audit")} >= noted
    assert query(crowded, "SELECT count(*) FROM public.rejected_row UNION ALL SELECT count(*) FROM public.event") == [
        (0,),
        (0,),
    ]
    found = query(crowded, "SELECT job_id, count(*) FROM bulk.rejected_row GROUP BY 1 ORDER BY 1")
    assert [count for _, count in found] == [2, 1, 1]
    assert query(crowded, "SELECT count(*) FROM pg_class WHERE relname ~ '^import_(aside|ledger)_'") == [(1,)]
    engine.dispose()


def test_tables_of_people_that_are_called_as_ours_are_traced_and_exported(
    crowded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"BULK_DATABASE_URL": crowded, "BULK_HOME": str(tmp_path / "home")}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    done = CliRunner().invoke(main, ["resources", "adopt", "job", "--name", "tasks", "--provenance"])
    assert done.exit_code == 0, done.output
    engine = pool.connect(crowded)
    job = loaded(Imports(engine, tmp_path, known_kinds()), "job", "id,title\n1,one\n2,two\n")
    assert job.kind == "import_tasks"
    with psycopg.connect(crowded, autocommit=True) as stranger:
        stranger.execute("UPDATE job SET title = 'mine' WHERE id = 2")
    assert query(crowded, "SELECT id, import_revised FROM public.job ORDER BY id") == [(1, False), (2, True)]
    done = CliRunner().invoke(main, ["export", "--table", "job", "--fields", "id,title", "--to", "-"])
    assert (done.exit_code, done.stdout) == (0, "id,title\n1,one\n2,mine\n"), done.output
    done = CliRunner().invoke(main, ["export", "--table", "bulk.job", "--to", "-"])
    assert done.exit_code == 1
    assert "bulk.job is a table of this program itself" in done.output
    engine.dispose()


def test_the_doctor_says_what_collides_before_anything_is_written(empty_database_url: str) -> None:
    chosen = Settings(database_url=empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(THEIRS.encode())
        connection.execute("CREATE SCHEMA bulk; CREATE TABLE bulk.parcels (id int)")
    finding = doctor.room(chosen)
    assert finding.ok
    assert finding.message == (
        "bulk, which `bulk migrate` makes ready; it also has parcels, not ours, which nobody touches; "
        "named like tables of ours, and told apart: public.audit, public.event, public.job, public.rejected_row"
    )
    with pool.single(empty_database_url) as connection:
        connection.execute("CREATE TABLE bulk.job_item (id int); CREATE TYPE bulk.item_status AS ENUM ('a')")
    finding = doctor.room(chosen)
    assert not finding.ok
    assert "the schema bulk has something of others that we would make there (item_status, job_item)" in finding.message
    with pytest.raises(Unavailable, match=r"something of others .*: name another one as BULK_SCHEMA"):
        migrations.apply(empty_database_url)
    assert standing(empty_database_url, "bulk") == {"item_status", "job_item", "parcels"}


def test_the_samples_are_made_when_somebody_asks(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", empty_database_url)
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    migrations.apply(empty_database_url)
    file = tmp_path / "users.csv"
    file.write_text("email,name,role\na@b.org,A,reader\n")
    for command in (["import", str(file), "--resource", "users"], ["export", "users", "--to", str(tmp_path)]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 1
        assert "there is no table users in this database: `bulk resources sample` makes" in done.stderr
    assert query(empty_database_url, "SELECT count(*) FROM job") == [(0,)]
    assert doctor.distribution(Settings(database_url=empty_database_url)).ok
    assert CliRunner().invoke(main, ["resources", "sample"]).output == "made users, articles, comments\n"
    assert CliRunner().invoke(main, ["resources", "sample"]).output == "the tables are there already\n"
    engine = pool.connect(empty_database_url)
    imports = Imports(engine, tmp_path)
    assert imports.worked(imports.planned(file.read_text())).status == "COMPLETED"
    engine.dispose()


def test_samples_never_take_the_place_of_a_table_of_people(empty_database_url: str) -> None:
    migrations.apply(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE users (id int)")
    with pool.single(empty_database_url) as connection, pytest.raises(Conflict, match="there is a table users already"):
        samples.make(connection)
    samples.furnish(empty_database_url)
    assert standing(empty_database_url, "public") == {"users"}


ROWS = "email,name,role\nann@b.org,Ann,reader\nbob@b.org,Bob,reader\n"
INFLIGHT = """
INSERT INTO job (kind, owner, origin, request_hash, status, started_at, planned_at, total_items, pending_items)
VALUES ('work', 'me', 'cli', '', 'RUNNING', now(), now(), 2, 2);
INSERT INTO job_item (job_id, item_key, owner, kind, lease_owner, lease_until, leased_at, claim_id)
SELECT job_id, 'held', 'me', 'work', 'w1', now() + interval '1 hour', now(), 1 FROM job WHERE kind = 'work';
INSERT INTO job_item (job_id, item_key, owner, kind) SELECT job_id, 'waits', 'me', 'work' FROM job WHERE kind = 'work';
INSERT INTO claim (job_id, owner, item_ids, look_at)
SELECT job_id, 'w1', ARRAY[item_id], now() + interval '1 hour' FROM job_item WHERE item_key = 'held';
CREATE TABLE import_aside_7 (line int);
CREATE TABLE import_ledger_7 (line int);
INSERT INTO users (id, email, name, role) VALUES (gen_random_uuid(), 'old@b.org', 'Old', 'reader');
INSERT INTO users_aside (id, email, name, role, active, created_at, updated_at, import_job, import_line)
SELECT id, 'wait@b.org', name, role, active, created_at, updated_at, 5, 2 FROM users;
"""


def test_what_an_older_version_has_made_is_moved(empty_database_url: str, database_url: str, tmp_path: Path) -> None:
    url = empty_database_url
    (tmp_path / "old").mkdir()
    former.made_by_the_last_version(url, tmp_path / "old")
    role = f"hand_{url.rpartition('test_')[2][:16]}"
    with pool.single(url) as connection:
        connection.execute(f"CREATE ROLE {role}; GRANT SELECT ON job TO {role}".encode())
        connection.execute("CREATE TYPE work_status AS ENUM ('open'); CREATE TABLE tasks (id int, status work_status)")
    engine = pool.connect(url)
    job = Imports(engine, tmp_path).planned(ROWS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(INFLIGHT.encode())
    engine.dispose()
    before = query(url, "SELECT item_key, lease_owner FROM job_item ORDER BY 1")
    waiting = doctor.room(Settings(database_url=url))
    assert "the tables of an older version in public will be moved there by `bulk migrate`" in waiting.message
    assert not doctor.schema(Settings(database_url=url)).ok

    assert migrations.apply(url)[-1] == FILES[-1].stem

    assert standing(url, "public") == {*samples.SAMPLES, "tasks", "work_status"}
    assert query(url, "SELECT item_key, lease_owner FROM bulk.job_item ORDER BY 1") == before
    assert query(url, "SELECT email FROM bulk.users_aside") == [("wait@b.org",)]
    assert standing(url, "bulk") >= {"import_aside_7", "import_ledger_7"}
    assert query(
        url, f"SELECT has_schema_privilege('{role}', 'bulk', 'USAGE'), has_schema_privilege('{role}', 'bulk', 'CREATE')"
    ) == [(True, False)]
    engine = pool.connect(url)
    assert Imports(engine, tmp_path).worked(job).status == "COMPLETED"
    assert {email for (email,) in query(url, "SELECT email FROM users")} == {"old@b.org", "ann@b.org", "bob@b.org"}
    engine.dispose()
    with pool.single(url) as connection:
        connection.execute("DROP TABLE bulk.import_aside_7, bulk.import_ledger_7")
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
    assert schema(url) == schema(database_url), "whoever came the long way has what a new database has"
    assert migrations.apply(url) == []


def test_what_an_older_version_has_made_where_its_address_said(empty_database_url: str, tmp_path: Path) -> None:
    with pool.single(empty_database_url) as connection:
        connection.execute('CREATE SCHEMA "Their Own"')
    former.made_by_the_last_version(empty_database_url, tmp_path, "Their Own")
    with pytest.raises(Unavailable, match="the tables are in the schema Their Own of this database"):
        migrations.apply(empty_database_url)
    url = f'{empty_database_url}&options=-csearch_path%3D"Their\\ Own"'
    migrations.apply(url)
    assert standing(empty_database_url, '"Their Own"') == set(samples.SAMPLES)
    with pool.single(url) as connection:
        assert connection.execute("SELECT count(*) FROM job, users").fetchone() == (0,)


def test_marks_of_another_program_are_not_moved(empty_database_url: str, tmp_path: Path) -> None:
    former.made_by_the_last_version(empty_database_url, tmp_path)
    with pool.single(empty_database_url) as connection:
        connection.execute("INSERT INTO _yoyo_migration VALUES ('x', '20240101_theirs', now())")
    with pytest.raises(Unavailable, match=r"public._yoyo_migration also marks migrations .* \(20240101_theirs\)"):
        migrations.apply(empty_database_url)
    assert standing(empty_database_url, "public") > {"job", "job_item", "_yoyo_migration"}
