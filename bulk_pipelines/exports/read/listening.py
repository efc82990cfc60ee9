"""Finding out whether an export is still wanted while a connection waits for PostgreSQL's answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Cancelled

LOOK = 0.2
"""Seconds between two looks at whether the caller wants to stop, while nothing arrives."""
PATIENCE = 5.0
"""Seconds to wait until the server accepts a request to cancel."""
SAID = "the export was cancelled; nothing of it remains"


@contextmanager
def listening(connection: Connection, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Cancel the connection's query as soon as `cancelled` returns true, and raise `Cancelled`."""
    over = threading.Event()
    heard: list[BaseException] = []

    def listen() -> None:
        try:
            while not over.wait(LOOK):
                if heard or cancelled():
                    heard[:] = [Cancelled(SAID)]
                    with suppress(psycopg.Error):
                        connection.cancel_safe(timeout=PATIENCE)
        except BaseException as error:  # noqa: BLE001 - who is asking raises it, when PostgreSQL has answered
            heard.append(error)

    thread = threading.Thread(target=listen, name="export listener", daemon=True)
    thread.start()
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        if heard:
            raise heard[0] from error
        raise
    finally:
        over.set()
        thread.join()
    if heard:
        raise heard[0]
