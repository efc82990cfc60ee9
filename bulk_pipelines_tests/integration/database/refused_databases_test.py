"""Databases, roles and poolers that cannot be used are refused in one line, which says what to do."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from bulk_pipelines.database import migrations, pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines_tests.scenes.sessions import pgbouncer, refused, role, turn


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


def test_an_address_that_turns_foreign_keys_off_is_refused(database_url: str) -> None:
    address = f"{database_url}&options=-csession_replication_role%3Dreplica"
    refused(address, Unavailable, "the database looks at no foreign key and fires no trigger")


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
