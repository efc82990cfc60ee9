"""Every session says what it needs itself: whatever role, database, environment or address say, of whichever driver."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, create_engine, make_url

from bulk_pipelines.database import advisory, migrations, pool, session
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.exports.read import batches
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.orchestration.schema import SCHEMA
from bulk_pipelines.orchestration.storage import Storage
from bulk_pipelines.up import home
from bulk_pipelines_tests.scenes.export_files import exported, exported_by, read, stored
from bulk_pipelines_tests.scenes.import_runs import finished, rows
from bulk_pipelines_tests.scenes.sessions import TURNED, pgbouncer, turn

SHOWN = ("search_path", *session.SETTINGS)
NAMED = "SELECT " + ", ".join(f"current_setting('{name}')" for name in SHOWN)

ENVIRONMENT = {
    "PGCLIENTENCODING": "LATIN1",
    "PGOPTIONS": "-csearch_path=nowhere -cstatement_timeout=1",
    "PGDATESTYLE": "German",
    "PGTZ": "Asia/Kathmandu",
    "PGHOSTADDR": "192.0.2.1",
    "PGPORT": "1",
    "PGUSER": "nobody",
    "PGDATABASE": "nowhere",
    "PGTARGETSESSIONATTRS": "standby",
}

ONE_USER = "INSERT INTO users (id, email, name, role) VALUES (gen_random_uuid(), 'a@b.c', 'A', 'reader')"
TEXT = "Jürgen € ’ Größe 名前 🙂"


def from_pool(url: str) -> tuple[Any, ...]:
    engine = pool.connect(url)
    try:
        with pool.transaction(engine) as connection:
            return connection.execute(NAMED.encode()).fetchone() or ()
    finally:
        engine.dispose()


def from_single(url: str) -> tuple[Any, ...]:
    with pool.single(url) as connection:
        return connection.execute(NAMED.encode()).fetchone() or ()


def from_adbc(url: str) -> tuple[Any, ...]:
    with batches.connected(pool.parsed(url)) as connection, connection.cursor() as cursor:
        cursor.execute(NAMED)
        return cursor.fetchone() or ()


def from_dagster(url: str) -> tuple[Any, ...]:
    engine = create_engine(home.storage_url(url))
    try:
        with engine.connect() as connection:
            return tuple(connection.exec_driver_sql(NAMED).fetchone() or ())
    finally:
        engine.dispose()


STORAGE = Storage
"""Its module sets up the sessions of its addresses."""

SESSIONS = {"pool": from_pool, "single": from_single, "adbc": from_adbc, "dagster": from_dagster}
every_session = pytest.mark.parametrize("kind", SESSIONS)


def check(kind: str, url: str, search_path: str = session.SEARCH_PATH) -> None:
    wanted = (SCHEMA if kind == "dagster" else session.first(search_path), *session.SETTINGS.values())
    assert dict(zip(SHOWN, SESSIONS[kind](url), strict=True)) == dict(zip(SHOWN, wanted, strict=True))


@contextmanager
def role(url: str, name: str) -> Iterator[str]:
    """A role for the block; the address with it instead of the owner."""
    with pool.single(url) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
    try:
        yield url.replace("postgres@", f"{name}@", 1)
    finally:
        with pool.single(url) as connection:
            connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}".encode())


def test_every_setting_is_turned_by_a_test() -> None:
    assert {"search_path", *session.SETTINGS} == TURNED.keys()


@every_session
def test_a_database_decides_nothing(database_url: str, kind: str) -> None:
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname)
    with closing(psycopg.connect(database_url)) as stranger:
        assert stranger.execute("SHOW search_path").fetchone() == ("nowhere",)
    check(kind, database_url)


@every_session
def test_a_role_decides_nothing(database_url: str, kind: str) -> None:
    with role(database_url, f"turned_{kind}") as url:
        with pool.single(database_url) as connection:
            turn(connection, "ROLE", f"turned_{kind}")
        check(kind, url)


@every_session
def test_the_environment_decides_nothing(database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    check(kind, database_url)


@every_session
def test_a_pooler_that_knows_no_options_decides_nothing(server: Server, database_url: str, kind: str) -> None:
    database = make_url(database_url).database
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname)
    with pgbouncer(server, "session") as address:
        check(kind, f"{address}/{database}")
        check(kind, f"{address}/{database}?options=-csearch_path%3Dpublic", "public")
    with pgbouncer(server, "session", ignore_startup_parameters="options") as address:
        check(kind, f"{address}/{database}?options=-csearch_path%3Dpublic", "public")


@every_session
def test_what_the_address_says_of_other_settings_holds(database_url: str, kind: str) -> None:
    check(kind, f"{database_url}&options=-c%20search_path%3Dpublic%5C%20,elsewhere --work-mem=5MB", "public ,elsewhere")


@pytest.mark.parametrize("options", ["-d 5", "search_path=public", "-c", "-c search_path"])
def test_options_that_are_no_settings_are_refused(database_url: str, options: str) -> None:
    with pytest.raises(InvalidInput, match="BULK_DATABASE_URL: its options may only hold -c name=value"):
        pool.single(f"{database_url}&options={options}")


def test_a_setting_that_nobody_knows_is_one_line(database_url: str) -> None:
    with pytest.raises(Unavailable, match='unrecognized configuration parameter "wrok_mem"') as caught:
        pool.single(f"{database_url}&options=-cwrok_mem%3D1")
    assert "\n" not in str(caught.value)


def test_texts_come_and_go_as_they_are(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname)
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    file = tmp_path / "users.csv"
    file.write_text(f"email,name,role\na@b.org,{TEXT},reader\nc@d.org,back\\slash 'q',reader\n", encoding="utf-8")
    engine = pool.connect(database_url)
    run = finished(engine, file)
    assert (run.counts.loaded, run.counts.rejected) == (2, 0)
    assert sorted(row[2] for row in rows(engine, run.context.resource)) == sorted([TEXT, "back\\slash 'q'"])
    for format_ in Format:
        request = ExportRequest("users", format_, ("id", "email", "name", "created_at"))
        assert sorted(read(engine, request, exported(engine, request))) == sorted(stored(engine, request)), format_
        assert TEXT in {row[2] for row in read(engine, request, exported(engine, request))}
    engine.dispose()


def test_no_time_out_of_a_role_ends_an_export(server: Server, database_url: str) -> None:
    with pool.single(database_url) as connection:
        connection.execute(ONE_USER)
        turn(connection, "DATABASE", connection.info.dbname, {"statement_timeout": "200ms"})
        connection.execute(
            "ALTER TABLE users RENAME TO users_quick;"
            "CREATE VIEW public.users AS SELECT * FROM users_quick WHERE pg_sleep(0.5) IS NOT NULL"
        )
    engine = pool.connect(database_url)
    for format_ in (Format.CSV, Format.PARQUET):
        request = ExportRequest("users", format_, ("email",))
        assert read(engine, request, exported(engine, request)) == [("a@b.c",)]
    engine.dispose()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_is_not_utf8_is_refused(server: Server, encoding: str) -> None:
    name = f"not_utf8_{encoding.lower()}"
    form = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
    with pool.single(server.url()) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        connection.execute(f"CREATE DATABASE {name} {form}".encode())
    refused(server.url(name), InvalidInput, f"the database's encoding is {encoding}, and texts are UTF8: make")
    with pool.single(server.url()) as connection:
        connection.execute(f"DROP DATABASE {name}".encode())


def test_a_database_that_is_only_read_is_refused(database_url: str) -> None:
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname, {"default_transaction_read_only": "on"})
    refused(database_url, Unavailable, "the database is set to be only read")


def test_a_database_whose_names_are_all_quoted_is_refused(database_url: str) -> None:
    """Types would not be known by their names: values that a column changes would be loaded in silence."""
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname, {"quote_all_identifiers": "on"})
    refused(database_url, Unavailable, "the database writes all names in quotes")


def test_a_database_that_looks_at_no_foreign_key_is_refused(database_url: str) -> None:
    with pool.single(database_url) as connection:
        turn(connection, "DATABASE", connection.info.dbname, {"session_replication_role": "replica"})
    refused(database_url, Unavailable, "the database looks at no foreign key and fires no trigger")


@pytest.fixture
def standby(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that only replays what a primary would send."""
    made = Server(tmp_path_factory.mktemp("standby") / "postgres", binaries)
    made.start()
    made.stop()
    (made.data / "standby.signal").touch()
    made.start()
    yield made
    made.stop_immediately()


def test_a_standby_is_refused_and_of_several_hosts_the_primary_is_taken(standby: Server, server: Server) -> None:
    refused(standby.url(), Unavailable, "the database is a standby, which only reads: name its primary")
    several = (
        f"postgresql://postgres@/postgres?host={standby.socket_directory}:5432&host={server.socket_directory}:5432"
    )
    for kind in SESSIONS:
        check(kind, several)


def refused(url: str, error: type[Exception], message: str) -> None:
    """In one line, by everything that connects, before anything is written."""
    engine = pool.connect(url)
    tries = (
        lambda: pool.single(url),
        lambda: migrations.apply(url),
        lambda: migrations.state(url),
        lambda: pool.transaction(engine).__enter__(),
    )
    for attempt in tries:
        with pytest.raises(error, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    engine.dispose()


@pytest.mark.parametrize("format_", Format)
def test_exports_find_their_server_among_several(
    engine: Engine, database_url: str, server: Server, format_: Format
) -> None:
    with pool.transaction(engine) as connection:
        connection.execute(ONE_USER)
    database = make_url(database_url).database
    several = pool.connect(f"postgresql://postgres@/{database}?host=127.0.0.1:1&host={server.socket_directory}:5432")
    request = ExportRequest("users", format_, ("email",))
    assert read(several, request, exported_by(2, several, request)) == [("a@b.c",)]
    several.dispose()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("round_robin", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_pooler_that_shares_servers_is_refused(
    server: Server, database_url: str, mode: str, round_robin: int, size: int
) -> None:
    with pgbouncer(server, mode, server_round_robin=round_robin, default_pool_size=size) as address:
        url = f"{address}/{make_url(database_url).database}"
        refused(url, InvalidInput, r"the pooler before the database shares servers .* set pool_mode = session")


def test_a_pooler_without_a_second_server_says_so(server: Server, database_url: str) -> None:
    with pgbouncer(server, "session", default_pool_size=1) as address:
        url = f"{address}/{make_url(database_url).database}"
        with pytest.raises(Unavailable, match="gave a second session no server within 1 s: raise its pool size"):
            pool.single(url, timeout=1)


def test_the_schema_that_a_role_looks_in_does_not_hide_the_tables(database_url: str) -> None:
    with role(database_url, "elsewhere") as url:
        with pool.single(database_url) as connection:
            connection.execute("ALTER ROLE elsewhere SET search_path = nowhere")
            connection.execute(
                "GRANT USAGE ON SCHEMA bulk TO elsewhere; GRANT ALL ON ALL TABLES IN SCHEMA bulk TO elsewhere"
            )
        assert migrations.pending(url) == []


def test_tables_in_another_schema_are_not_made_a_second_time(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_SCHEMA", "ours")
    migrations.apply(empty_database_url)
    monkeypatch.delenv("BULK_SCHEMA")
    with pytest.raises(Unavailable, match="the tables are in the schema ours of this database, .* set BULK_SCHEMA"):
        migrations.apply(empty_database_url)
    monkeypatch.setenv("BULK_SCHEMA", "second")
    assert migrations.apply(empty_database_url) == [each.id for each in migrations.migrations(migrations.MIGRATIONS)]


def test_a_role_that_may_not_make_tables_is_told_whom_to_ask(empty_database_url: str) -> None:
    with role(empty_database_url, "humble") as url:
        with pytest.raises(Unavailable, match="the role humble may not make the schema bulk: let the database's owner"):
            migrations.apply(url)
        with pool.single(empty_database_url) as connection:
            connection.execute("CREATE SCHEMA bulk")
        with pytest.raises(Unavailable, match="the role humble may not use the schema bulk: let its owner run GRANT"):
            migrations.apply(url)
        with pool.single(empty_database_url) as connection:
            connection.execute("DROP SCHEMA public; ALTER SCHEMA bulk OWNER TO humble")
        assert migrations.apply(url) == [migration.id for migration in migrations.migrations(migrations.MIGRATIONS)]


def test_a_role_that_may_not_read_the_tables_is_one_line(database_url: str) -> None:
    said = "the database's schema cannot be used: permission denied for table _yoyo_migration"
    with role(database_url, "blind") as url:
        with pool.single(database_url) as connection:
            connection.execute("GRANT USAGE ON SCHEMA bulk TO blind")
        with pytest.raises(Unavailable, match=said):
            migrations.pending(url)


def test_who_waits_for_another_migration_is_told_for_whom(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "PATIENCE", "200ms")
    with pool.single(database_url, application="somebody") as other:
        other.execute("SELECT pg_advisory_lock(%s)", [migrations.LOCK])
        with pytest.raises(Unavailable, match=rf"process {other.info.backend_pid} of the server, somebody"):
            migrations.apply(database_url)


def test_a_migration_does_not_wait_for_ever_for_a_table(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "PATIENCE", "200ms")
    with pool.single(empty_database_url) as other:
        other.execute("CREATE TABLE busy (n int)")
        (tmp_path / "m1.sql").write_text("ALTER TABLE public.busy ADD COLUMN m int;")
        with other.transaction():
            other.execute("SELECT * FROM busy")
            with pytest.raises(Exception, match=r"m1 failed and left nothing behind: .* \(others have been at work"):
                migrations.apply(empty_database_url, tmp_path)
    assert migrations.apply(empty_database_url, tmp_path) == ["m1"]


def test_locks_are_given_back_by_name(server: Server, database_url: str) -> None:
    """A pooler that does not clean its sessions would keep them."""
    with pgbouncer(server, "session", server_reset_query="", default_pool_size=5) as address:
        url = f"{address}/{make_url(database_url).database}"
        engine = pool.connect(url)
        migrations.apply(url)
        for _ in range(3):
            with advisory.held(engine, "a lock") as ours:
                assert ours
        with pool.single(database_url) as connection:
            found = connection.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            ).fetchone()
        assert found == (0,)
        engine.dispose()


def test_settings_are_quoted_for_every_server(database_url: str) -> None:
    strange = 'it\'s \\ "odd"'
    with closing(psycopg.connect(database_url)) as connection:
        for conforming in ("on", "off"):
            connection.execute(sql.SQL("SET standard_conforming_strings = {}").format(sql.SQL(conforming)))
            assert connection.execute(f"SELECT {session.quoted(strange)}".encode()).fetchone() == (strange,)
