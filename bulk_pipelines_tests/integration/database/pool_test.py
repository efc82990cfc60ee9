"""Connections: transactions, a server that goes away and comes back, and what an error says."""

import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.errors import InvalidInput, Unavailable


def test_a_transaction_commits_at_its_end(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_an_error_rolls_back_and_stays_itself(engine: Engine) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero), pool.transaction(engine) as connection:
        connection.execute("CREATE TABLE lost (n int)")
        connection.execute("SELECT 1 / 0")
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT to_regclass('lost')").fetchone() == (None,)


def test_a_lost_connection_is_unavailable_and_the_pool_heals(engine: Engine) -> None:
    with pytest.raises(Unavailable), pool.transaction(engine) as connection:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_idle_connections_of_a_restarted_server_heal(engine: Engine, server: Server) -> None:
    with pool.transaction(engine) as one, pool.transaction(engine) as two:
        one.execute("SELECT 1")
        two.execute("SELECT 1")
    with pool.single(server.url()) as admin:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        admin.execute(ended, [engine.url.database])
    with pool.transaction(engine) as one, pool.transaction(engine) as two:
        assert one.execute("SELECT 1").fetchone() == two.execute("SELECT 1").fetchone() == (1,)


def test_nobody_listens(server: Server) -> None:
    engine = pool.connect("postgresql://somebody:s3cret@127.0.0.1:1/nowhere", timeout=2)
    with pytest.raises(Unavailable) as caught, pool.transaction(engine):
        pass
    assert "127.0.0.1" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(Unavailable, match="127.0.0.1"):
        pool.single("postgresql://somebody:s3cret@127.0.0.1:1/nowhere", timeout=2)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://somebody:s3cret@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=somebody&password=s3cret&sslpassword=s3cret",
        "postgresql:///x?host=127.0.0.1&port=1&password=s3cret",
    ],
)
def test_no_spelling_of_a_password_is_shown(url: str) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1") as caught:
        pool.single(url, timeout=2)
    assert "s3cret" not in str(caught.value)


def test_a_full_pool_is_unavailable(database_url: str) -> None:
    engine = pool.connect(database_url, size=1, timeout=1)
    with pool.transaction(engine), pytest.raises(Unavailable), pool.transaction(engine):
        pass
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://root:s3cret@localhost/db", "s3cret", "postgresql://u:s3cret@host:port/db"])
def test_an_address_that_is_none_names_the_setting(url: str) -> None:
    with pytest.raises(InvalidInput, match="BULK_DATABASE_URL") as caught:
        pool.connect(url)
    assert "s3cret" not in str(caught.value)


def test_several_hosts_are_tried_in_turn(server: Server) -> None:
    url = f"postgresql://postgres@/postgres?host=127.0.0.1:1&host={server.socket_directory}:5432"
    with pool.single(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_both_spellings_of_the_scheme(database_url: str) -> None:
    for url in (database_url, database_url.replace("postgresql:", "postgres:")):
        with pool.single(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
