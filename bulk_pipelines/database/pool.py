"""Connections: an SQLAlchemy engine is the pool, and raw psycopg 3 connections do the work."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakSet

import psycopg
from sqlalchemy import URL, Engine, create_engine, event, exc, make_url

from bulk_pipelines.database import pooler, session
from bulk_pipelines.database.session import URL_FIELD, Facts
from bulk_pipelines.errors import InvalidInput, Unavailable

Connection = psycopg.Connection[Any]
"""A connection of psycopg, whatever type its rows have."""
TURNED: WeakSet[Connection] = WeakSet()
"""The connections on which SQL of people has run since they were lent."""
Begin = Callable[[], AbstractContextManager[Connection]]
"""A function that opens a transaction, which is committed at the end of its block."""


def connect(url: str, *, application: str = "bulk", size: int = 10, timeout: int = 10) -> Engine:
    """Make a pool of at most `size` connections. The first is opened when it is needed.

    `timeout` is how many seconds to wait for the server's answer, and for a free connection.
    """
    target = parsed(url)
    arguments = session.arguments(target, application, timeout)
    engine = create_engine(
        target,
        pool_size=size,
        max_overflow=0,
        pool_timeout=timeout,
        pool_pre_ping=True,
        pool_use_lifo=True,
        use_native_hstore=False,
        connect_args=arguments,
    )

    # The session is set up before SQLAlchemy asks anything, because else it may not understand the answers.
    @event.listens_for(engine, "connect", insert=True)
    def prepared(connection: Connection, _record: object) -> None:
        prepare(connection, target, arguments)

    return engine


@contextmanager
def borrowed(engine: Engine) -> Iterator[Connection]:
    """Lend a pooled connection. Raise `Unavailable` if the database is lost, before the block or within it."""
    try:
        pooled = engine.raw_connection()
    except (exc.SQLAlchemyError, psycopg.Error) as error:
        raise unavailable(error, engine.url) from error
    connection = pooled.driver_connection
    assert isinstance(connection, psycopg.Connection)
    try:
        yield connection
    except psycopg.Error as error:
        if connection.broken or connection.closed:
            pooled.invalidate()
            raise unavailable(error, engine.url) from error
        raise
    finally:
        try:
            clean(connection, engine.url)
        except psycopg.Error:
            pooled.invalidate()
        pooled.close()


def clean(connection: Connection, url: URL) -> None:
    """Undo what SQL of people has done to the session: its settings, its role, and locks that it left. Whoever gets the
    connection next must not read times in another zone, or wait for ever."""
    if connection.closed or connection not in TURNED:
        return
    TURNED.discard(connection)
    connection.rollback()
    automatic, connection.autocommit = connection.autocommit, True
    chosen = session.settings(session.named(url))
    setting = session.statement(chosen, session.refuse_old(connection.info.server_version))
    # A login may begin as another role (ALTER ROLE … SET role), which RESET ALL does not restore.
    connection.execute(f"RESET ALL; RESET ROLE; {setting}; SELECT pg_catalog.pg_advisory_unlock_all()".encode())
    connection.autocommit = automatic


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction on a pooled connection. It is committed at the end of the block, and rolled back on an error.

    Raise `Unavailable` if the database is lost, before the block or within it.
    """
    with borrowed(engine) as connection, connection.transaction():
        yield connection


@contextmanager
def statements(engine: Engine) -> Iterator[Connection]:
    """Lend a pooled connection on which each statement is a transaction of its own. Whoever reads by one statement is
    spared two more questions to the server, which begin and end a transaction."""
    with borrowed(engine) as connection:
        connection.autocommit = True
        try:
            yield connection
        finally:
            if not connection.closed:
                connection.autocommit = False


def single(url: str, *, application: str = "bulk", timeout: int = 10) -> Connection:
    """Open a connection outside any pool, in autocommit mode."""
    target = parsed(url)
    arguments = session.arguments(target, application, timeout)
    try:
        connection = psycopg.connect(**arguments, autocommit=True)
    except psycopg.Error as error:
        raise unavailable(error, target) from error
    prepare(connection, target, arguments)
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


def prepare(connection: Connection, url: URL, arguments: Mapping[str, Any]) -> None:
    """Set a new session up, and refuse a server or a database that we cannot work with."""
    try:
        version = session.refuse_old(connection.info.server_version)
        automatic, connection.autocommit = connection.autocommit, True
        row = connection.execute(session.statement(session.settings(session.named(url)), version)).fetchone()
        assert row is not None
        facts = Facts(*row[-6:])
        session.refuse_unfit(facts)
        pooler.refuse_shared_servers(connection, facts.pid, arguments)
        connection.autocommit = automatic
    except BaseException as error:
        connection.close()
        if isinstance(error, psycopg.Error):
            raise unavailable(error, url) from error
        raise


def reason(error: psycopg.Error) -> str:
    """Return what PostgreSQL said in one line, without the place in the statement."""
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__


def unavailable(error: Exception, url: URL) -> Unavailable:
    """Return an error that names the database so that a person can find it, and why it does not answer. It never shows
    a password."""
    cause = getattr(error, "orig", None) or (error.args[0] if error.args else type(error).__name__)
    reason = " ".join(str(cause).split())
    secrets = [url.password, *(url.query.get(name) for name in ("password", "sslpassword"))]
    for secret in (str(each) for each in secrets if each):
        reason = reason.replace(secret, "***")
    place = {name: value for name, value in url.query.items() if name in {"host", "port", "hostaddr", "dbname"}}
    shown = url.set(drivername="postgresql", query=place).render_as_string(hide_password=True)
    return Unavailable(f"the database {shown} cannot be used: {reason}")
