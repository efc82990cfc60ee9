"""The command line on databases that are not as it needs them: one line, what to do, and nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, make_url

from bulk_pipelines import doctor
from bulk_pipelines.cli import main
from bulk_pipelines.database import pool, samples
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines_tests.scenes.sessions import pgbouncer, turn

COMMANDS = (
    ["migrate"],
    ["status"],
    ["dlq", "list"],
    ["export", "users"],
    ["import", str(CHECKOUT / "docs" / "samples" / "users.csv"), "--resource", "users"],
)
SAMPLE = CHECKOUT / "docs" / "samples" / "users.csv"


@pytest.fixture
def unfit(server: Server, database_url: str, empty_database_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database that cannot be worked with."""
    database = make_url(database_url).database
    with ExitStack() as kept:
        match request.param:
            case "latin1":
                with pool.single(server.url()) as connection:
                    name = make_url(empty_database_url).database
                    connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
                    form = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
                    connection.execute(f"CREATE DATABASE {name} {form}".encode())
                yield empty_database_url
            case "read-only":
                with pool.single(database_url) as connection:
                    turn(connection, "DATABASE", connection.info.dbname, {"default_transaction_read_only": "on"})
                yield database_url
            case mode:
                yield f"{kept.enter_context(pgbouncer(server, mode))}/{database}"


@pytest.mark.parametrize(
    ("unfit", "message", "remedy"),
    [
        ("latin1", "the database's encoding is LATIN1", "name a database that is UTF8"),
        ("read-only", "the database is set to be only read", "let it be written"),
        ("transaction", "the pooler before the database shares servers", "change the pooler's pool_mode"),
        ("statement", "the pooler before the database shares servers", "change the pooler's pool_mode"),
    ],
    indirect=["unfit"],
)
def test_a_database_that_is_not_fit_is_one_line(unfit: str, message: str, remedy: str, tmp_path: Path) -> None:
    variables = {"BULK_DATABASE_URL": unfit, "BULK_HOME": str(tmp_path)}
    for command in COMMANDS:
        done = CliRunner().invoke(main, command, env=variables)
        assert done.exit_code == 1, command
        assert done.stdout == ""
        assert done.stderr.startswith("Error: ")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    finding = doctor.server(Settings(database_url=unfit, home=tmp_path))
    assert not finding.ok
    assert message in finding.message
    assert finding.remedy.startswith(remedy)


@pytest.fixture
def worker(database_url: str, server: Server) -> Iterator[str]:
    """The address with a role that may use the tables, and nothing else."""
    name = f"worker_{os.getpid()}"
    with pool.single(database_url) as connection:
        connection.execute(
            f"CREATE ROLE {name} LOGIN; GRANT USAGE, CREATE ON SCHEMA bulk TO {name};"
            f"GRANT ALL ON ALL TABLES IN SCHEMA bulk, public TO {name};"
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA bulk TO {name}".encode()
        )
    yield database_url.replace("postgres@", f"{name}@", 1)
    with pool.single(database_url) as connection:
        connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}".encode())


def test_a_role_that_may_make_no_schema_leaves_no_job_behind(worker: str, database_url: str, tmp_path: Path) -> None:
    variables = {"BULK_DATABASE_URL": worker, "BULK_HOME": str(tmp_path / "home")}
    for command in COMMANDS[3:]:
        done = CliRunner().invoke(main, command, env=variables)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert "may not make the schema dagster: let the database's owner run CREATE SCHEMA dagster" in done.stderr
        assert done.stderr.count("\n") == 1
    with pool.single(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (0,)
    finding = doctor.instance(Settings(database_url=worker, home=tmp_path))
    assert not finding.ok
    assert "may not make the schema dagster" in finding.message
    with pool.single(database_url) as connection:
        connection.execute("CREATE SCHEMA dagster")
    finding = doctor.instance(Settings(database_url=worker, home=tmp_path))
    assert not finding.ok
    assert "GRANT USAGE, CREATE ON SCHEMA dagster TO" in finding.message


def test_a_role_whose_tables_are_closed_to_it_is_seen_by_the_doctor(
    worker: str, database_url: str, tmp_path: Path
) -> None:
    chosen = Settings(database_url=worker, home=tmp_path)
    assert doctor.schema(chosen).ok
    role = make_url(worker).username
    for revoked, said in {
        f"DELETE ON job_item FROM {role}": "the role may not read and write job_item",
        f"UPDATE ON import_count FROM {role}": "the role may not read and write import_count, job_item",
        f"ALL ON SEQUENCE job_number FROM {role}": "import_count, job_item, draw from job_number",
        f"TEMPORARY ON DATABASE {make_url(worker).database} FROM PUBLIC": "make temporary tables in the database",
        "USAGE ON LANGUAGE plpgsql FROM PUBLIC": "use the language plpgsql",
    }.items():
        with pool.single(database_url) as connection:
            connection.execute(f"REVOKE {revoked}".encode())
        finding = doctor.schema(chosen)
        assert not finding.ok
        assert said in finding.message
    with pool.single(database_url) as connection:
        connection.execute(f"REVOKE ALL ON bulk._yoyo_migration FROM {make_url(worker).username}".encode())
    finding = doctor.schema(chosen)
    assert not finding.ok
    assert "permission denied for table _yoyo_migration" in finding.message


def test_the_doctor_looks_at_every_table_that_is_written(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        rows = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'bulk'"
            " AND table_name NOT LIKE '\\_yoyo\\_%'"
        ).fetchall()
        strays = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S', 'v')"
        ).fetchall()
    assert {name for (name,) in rows} == set(doctor.TABLES)
    assert {name for (name,) in strays} == set(samples.SAMPLES)


Walk = Callable[[str], None]


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    """An import and an export by the command line, in processes with an environment that is not ours."""

    def walked(url: str) -> None:
        strange = {"PGCLIENTENCODING": "LATIN1", "PGOPTIONS": "-csearch_path=nowhere", "PGPORT": "1"}
        variables = os.environ | strange | {"BULK_DATABASE_URL": url, "BULK_HOME": str(tmp_path / "home")}
        file = tmp_path / "users.csv"
        file.write_text("email,name,role\na@b.org,Jürgen € 🙂,reader\n", encoding="utf-8")
        for arguments in (
            ["import", str(file), "--resource", "users"],
            *(["export", "users", "--format", each, "--to", f"{tmp_path}/users.{each}"] for each in ("csv", "parquet")),
            ["sweep"],
            ["doctor"],
        ):
            command = [sys.executable, "-m", "bulk_pipelines.cli", *arguments]
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        assert "Jürgen € 🙂" in (tmp_path / "users.csv").read_text(encoding="utf-8")

    return walked


def schemas(url: str) -> dict[str, set[str]]:
    with pool.single(url) as connection:
        rows = connection.execute(
            "SELECT table_schema, array_agg(table_name::text) FROM information_schema.tables GROUP BY 1"
        ).fetchall()
    return {schema: set(tables) for schema, tables in rows}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_role_for_which_the_schema_was_made_works_with_every_setting_turned(
    worker: str, database_url: str, walk: Walk
) -> None:
    name = make_url(worker).username
    with pool.single(database_url) as connection:
        connection.execute(f"CREATE SCHEMA dagster AUTHORIZATION {name}".encode())
        turn(connection, "DATABASE", connection.info.dbname)
    walk(worker)
    assert "runs" in schemas(database_url)["dagster"]
    assert "runs" not in schemas(database_url)["public"]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ignored", ["", "options"])
def test_behind_pgbouncer_dagster_keeps_to_its_schema(
    server: Server, database_url: str, walk: Walk, ignored: str
) -> None:
    with pgbouncer(server, "session", ignore_startup_parameters=ignored) as address:
        walk(f"{address}/{make_url(database_url).database}")
    assert "runs" in schemas(database_url)["dagster"]
    assert "runs" not in schemas(database_url)["public"]
