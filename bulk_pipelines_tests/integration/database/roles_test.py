"""The roles of an installation have the rights that they need, and no more."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from bulk_pipelines import doctor, status
from bulk_pipelines.api.metrics.scraping import Scraper
from bulk_pipelines.cli import main
from bulk_pipelines.database import migrations, pool, rights, samples
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import adoption
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.import_jobs import Imports

PEOPLE = "email,name,role\nann@b.org,Ann,reader\nann@b.org,Ann,reader\nbob@b.org,Bob,reader\n"
Made = Callable[[rights.Role, str], str]


@pytest.fixture
def made(empty_database_url: str) -> Iterator[Made]:
    """Makes a role of PostgreSQL with the rights that are documented, granted by another one; gives its address."""
    roles: list[str] = []

    def make(role: rights.Role, by: str) -> str:
        name = f"{role}_{os.getpid()}"
        with psycopg.connect(empty_database_url, autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {name} LOGIN".encode())
        roles.append(name)
        statements = rights.statements(role, name, make_url(empty_database_url).database or "", "dagster")
        with psycopg.connect(by, autocommit=True) as granting:
            granting.execute(statements.encode())
        return empty_database_url.replace("postgres@", f"{name}@", 1)

    yield make
    with psycopg.connect(empty_database_url, autocommit=True) as admin:
        for name in roles:
            admin.execute(f"REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name} CASCADE".encode())
        for name in roles:
            admin.execute(f"DROP ROLE {name}".encode())


def bulk(url: str, home: Path, *arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, arguments, env={"BULK_DATABASE_URL": url, "BULK_HOME": str(home)})
    return done.exit_code, done.stdout, done.stderr


def refusal(url: str, statement: str) -> str:
    with pool.single(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
        connection.execute(statement.encode())
    return str(raised.value)


@pytest.fixture
def granted(made: Made, empty_database_url: str) -> tuple[str, str, str]:
    """The addresses of an owner, a worker and a reader, in a database with tables of people."""
    owner = made(rights.Role.OWNER, empty_database_url)
    migrations.apply(owner)
    worker, reader = made(rights.Role.WORKER, owner), made(rights.Role.READER, owner)
    with pool.single(empty_database_url) as people, people.transaction():
        samples.make(people)
        people.execute("CREATE TABLE public.orders (id int PRIMARY KEY, n int); CREATE TABLE public.closed (id int)")
        works, reads = make_url(worker).username, make_url(reader).username
        people.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON users, articles, comments, orders TO {works}".encode())
        people.execute(f"GRANT SELECT ON users TO {reads}".encode())
    return owner, worker, reader


def test_a_worker_imports_in_every_way_and_changes_nothing_of_the_owners(
    granted: tuple[str, str, str], tmp_path: Path
) -> None:
    _, worker, _ = granted
    engine = pool.connect(worker)
    imports = Imports(engine, tmp_path)
    for validate_only in (True, False):
        assert imports.worked(imports.planned(PEOPLE, validate_only=validate_only)).status == "COMPLETED_WITH_ERRORS"
    upserted = imports.worked(imports.planned(PEOPLE, mode="upsert", match_on="email"))
    assert upserted.status == "COMPLETED", upserted.last_error
    with transaction(engine) as connection:
        declared = adoption.of_table(connection, "orders")
    job = imports.planned("id,n\n1,1\n1,2\n2,x\n", resource=declared.name, declaration=declared)
    assert imports.worked(job).status == "COMPLETED_WITH_ERRORS"
    assert doctor.schema(Settings(database_url=worker)).ok
    with transaction(engine) as connection:
        assert rights.missing(connection, doctor.TABLES, doctor.SEQUENCES) == []
        with pytest.raises(
            InvalidInput, match="may not read public.closed: GRANT SELECT ON public.closed TO it, and INSERT"
        ):
            adoption.of_table(connection, "closed")
    engine.dispose()
    assert "must be owner of table job" in refusal(worker, "DROP TABLE job")
    assert "permission denied for table _yoyo_migration" in refusal(worker, "DELETE FROM _yoyo_migration")
    assert "permission denied for schema public" in refusal(worker, "CREATE TABLE public.mine ()")


def test_a_reader_looks_and_is_told_in_one_line_what_it_may_not(granted: tuple[str, str, str], tmp_path: Path) -> None:
    owner, worker, reader = granted
    engine = pool.connect(worker)
    imports = Imports(engine, tmp_path)
    job = imports.worked(imports.planned(PEOPLE))
    engine.dispose()
    assert status.read(reader).jobs
    watching = pool.connect(reader)
    parts = next(each for each in Scraper(watching).look() if each.name == "bulk_metrics_part_up")
    watching.dispose()
    down = {each.labels["part"] for each in parts.samples if not each.value}
    assert down <= {"dagster"}, "Dagster keeps nothing in this database"
    for command in (["status"], ["jobs"], ["job", "show", job.job_key]):
        assert bulk(reader, tmp_path, *command)[0] == 0, command
    code, out, _ = bulk(reader, tmp_path, "export", "users", "--fields", "email", "--order", "email", "--to", "-")
    assert (code, out) == (0, "email\nann@b.org\nbob@b.org\n")
    file = tmp_path / "users.csv"
    file.write_text(PEOPLE)
    code, _, said = bulk(reader, tmp_path, "export", "--table", "closed", "--to", "-")
    assert (code, "GRANT SELECT ON public.closed TO it, and INSERT if it is to import" in said) == (1, True), said
    for refused in (
        ["import", str(file), "--resource", "users"],
        ["export", "users", "--to", f"{tmp_path}/out.csv"],
        ["export", "--table", "orders", "--to", "-"],
        ["pause", job.job_key],
    ):
        code, out, said = bulk(reader, tmp_path, *refused)
        assert (code, said.count("\n")) == (1, 1), (refused, out, said)
        assert "permission denied" in said or "may not" in said, (refused, said)
    with pool.single(owner) as connection:
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (1,)
    for table in rights.SECRET:
        assert f"permission denied for table {table}" in refusal(reader, f"SELECT * FROM {table}")
    assert "permission denied for table job" in refusal(reader, "UPDATE job SET owner = 'me'")
    finding = doctor.schema(Settings(database_url=reader))
    assert not finding.ok
    assert "the role may not read and write" in finding.message


def test_rights_are_printed_for_any_name(tmp_path: Path) -> None:
    code, out, _ = bulk("postgresql://me@127.0.0.1:1/shop%20db", tmp_path, "grants", "worker", 'odd "name"')
    assert code == 0
    assert 'GRANT CONNECT, TEMPORARY ON DATABASE "shop db" TO "odd ""name""";' in out
    assert out.startswith("BEGIN;")
    assert out.endswith("COMMIT;\n")


def test_a_table_that_hides_rows_is_asked_by_the_foreign_key_alone(
    granted: tuple[str, str, str], empty_database_url: str, tmp_path: Path
) -> None:
    """PostgreSQL looks a reference up as the owner of the table does, who sees rows that this role does not."""
    with pool.single(empty_database_url) as people:
        people.execute(
            f"""CREATE TABLE public.owners (id int PRIMARY KEY); INSERT INTO owners VALUES (1), (2);
            ALTER TABLE owners ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON owners USING (id = 1);
            CREATE TABLE public.pets (id int PRIMARY KEY, owner int REFERENCES owners);
            GRANT SELECT ON owners TO {make_url(granted[1]).username};
            GRANT SELECT, INSERT, UPDATE, DELETE ON pets TO {make_url(granted[1]).username}"""
        )
    engine = pool.connect(granted[1])
    imports = Imports(engine, tmp_path)
    for mode in ("insert", "upsert"):
        with pool.transaction(engine) as connection:
            declared = adoption.of_table(connection, "public.pets")
        text = f"id,owner\n{mode == 'insert':d},2\n{mode == 'insert':d},2\n7,3\n"
        job = imports.planned(text, resource=declared.name, declaration=declared, mode=mode)
        codes = imports.codes(imports.worked(job))
        assert codes.pop(4) == ["refused_by_table"]
        assert codes == ({3: ["duplicate_key"]} if mode == "insert" else {})
    assert imports.query("SELECT id, owner FROM pets ORDER BY id") == [(0, 2), (1, 2)]
    with pool.single(empty_database_url) as people:
        by_owner = adoption.of_table(people, "public.pets")
    with pytest.raises(InvalidInput, match=r"row-level security of public\.owners, which owner refers to, holds for"):
        imports.planned("id,owner\n8,2\n", resource=by_owner.name, declaration=by_owner)
    engine.dispose()
