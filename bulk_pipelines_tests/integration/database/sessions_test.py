"""Every session says what it needs itself: whatever role, database, environment or address say, of whichever driver."""

from collections.abc import Iterator
from contextlib import closing
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
from bulk_pipelines_tests.scenes.sessions import TURNED, pgbouncer, refused, role, turn

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
"""The module of this class sets up the sessions of its addresses."""

SESSIONS = {"pool": from_pool, "single": from_single, "adbc": from_adbc, "dagster": from_dagster}
every_session = pytest.mark.parametrize("kind", SESSIONS)


def check(kind: str, url: str, search_path: str = session.SEARCH_PATH) -> None:
    wanted = (SCHEMA if kind == "dagster" else session.first(search_path), *session.SETTINGS.values())
    assert dict(zip(SHOWN, SESSIONS[kind](url), strict=True)) == dict(zip(SHOWN, wanted, strict=True))


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


def test_the_schema_that_a_role_looks_in_does_not_hide_the_tables(database_url: str) -> None:
    with role(database_url, "elsewhere") as url:
        with pool.single(database_url) as connection:
            connection.execute("ALTER ROLE elsewhere SET search_path = nowhere")
            connection.execute(
                "GRANT USAGE ON SCHEMA bulk TO elsewhere; GRANT ALL ON ALL TABLES IN SCHEMA bulk TO elsewhere"
            )
        assert migrations.pending(url) == []


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
