"""Connections: one SQLAlchemy engine as the pool, raw psycopg 3 connections for the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import URL, Engine, create_engine, event, exc, make_url

from bulk_pipelines.errors import InvalidInput, Unavailable

OLDEST_SERVER = 15
URL_FIELD = "BULK_DATABASE_URL"

# A peer that vanished (its machine lost, the network cut) is noticed within about half a minute.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

# A process that is stopped inside a transaction must not keep its row locks for ever.
IDLE_IN_TRANSACTION = "5min"


def connect(url: str, *, application: str = "bulk", size: int = 10, timeout: int = 10) -> Engine:
    """A pool of at most `size` connections; the first is opened when it is needed.

    `timeout`: seconds to wait for the server's answer, and for a free connection.
    """
    engine = create_engine(
        parsed(url),
        pool_size=size,
        max_overflow=0,
        pool_timeout=timeout,
        pool_pre_ping=True,
        pool_use_lifo=True,
        use_native_hstore=False,
        connect_args={"application_name": application, "connect_timeout": timeout, **KEEPALIVE},
    )
    event.listen(engine, "connect", prepare)
    return engine


@contextmanager
def transaction(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    """One transaction on a pooled connection: committed at the end, rolled back on an error.

    A database that is lost, before or within, is `Unavailable`.
    """
    try:
        pooled = engine.raw_connection()
    except (exc.SQLAlchemyError, psycopg.Error) as error:
        raise unavailable(error, engine.url) from error
    connection = pooled.driver_connection
    assert isinstance(connection, psycopg.Connection)
    try:
        with connection.transaction():
            yield connection
    except psycopg.Error as error:
        if connection.broken or connection.closed:
            pooled.invalidate()
            raise unavailable(error, engine.url) from error
        raise
    finally:
        pooled.close()


def single(url: str, *, application: str = "bulk", timeout: int = 10) -> psycopg.Connection[Any]:
    """One connection of its own, in autocommit, outside any pool."""
    target = parsed(url)
    _, arguments = target.get_dialect()().create_connect_args(target)
    arguments.update(application_name=application, connect_timeout=timeout, **KEEPALIVE)
    try:
        connection = psycopg.connect(**arguments, autocommit=True)
    except psycopg.Error as error:
        raise unavailable(error, target) from error
    try:
        prepare(connection, None)
    except Exception:
        connection.close()
        raise
    return connection


def parsed(url: str) -> URL:
    try:
        parts = make_url(url)
        scheme = parts.get_backend_name()
    except (exc.ArgumentError, ValueError):
        raise InvalidInput(
            URL_FIELD, "is not a database address like postgresql://user:password@host:5432/name"
        ) from None
    if scheme not in {"postgresql", "postgres"}:
        raise InvalidInput(URL_FIELD, f"names a {scheme} database; it must be PostgreSQL, postgresql://…")
    return parts.set(drivername="postgresql+psycopg")


def prepare(connection: psycopg.Connection[Any], _record: object) -> None:
    """Check a new connection's server and set its session up."""
    version = connection.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise InvalidInput(URL_FIELD, f"the server is PostgreSQL {version}; {OLDEST_SERVER} or newer is needed")
    automatic, connection.autocommit = connection.autocommit, True
    connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION}'")
    connection.autocommit = automatic


def unavailable(error: Exception, url: URL) -> Unavailable:
    """The database as a person can find it, and why it does not answer; never its password."""
    cause = getattr(error, "orig", None) or (error.args[0] if error.args else type(error).__name__)
    reason = " ".join(str(cause).split())
    secrets = [url.password, *(url.query.get(name) for name in ("password", "sslpassword"))]
    for secret in (str(each) for each in secrets if each):
        reason = reason.replace(secret, "***")
    place = {name: value for name, value in url.query.items() if name in {"host", "port", "hostaddr", "dbname"}}
    shown = url.set(drivername="postgresql", query=place).render_as_string(hide_password=True)
    return Unavailable(f"the database {shown} cannot be used: {reason}")
