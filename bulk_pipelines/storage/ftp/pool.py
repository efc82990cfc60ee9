"""The connections to one FTP server. Each transfer has a connection of its own, and idle ones are used again."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bulk_pipelines.errors import Permanent, Throttled
from bulk_pipelines.storage.ftp.connection import Connection
from bulk_pipelines.storage.ftp.errors import failures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

IDLE = 4
PATIENCE = 3_600.0
"""The longest time that a thread which can have no connection waits for one that another thread uses."""


class Pool:
    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self.access = access
        self.idle: list[Connection] = []
        self.lent: dict[Connection, int] = {}
        """The connections that are in use, each with the thread that took it."""
        self.opening: list[int] = []
        """The threads that are about to use a connection."""
        self.given_back = threading.Condition()

    @contextmanager
    def connection(self, url: str) -> Iterator[Connection]:
        """Lend a connection for a few commands. Their errors name `url`."""
        connection = self.take()
        try:
            with failures(url):
                yield connection
        except BaseException as error:
            connection.between = connection.between and isinstance(error, Permanent)
            self.give(connection)
            raise
        self.give(connection)

    def take(self) -> Connection:
        """Lend a connection. Many servers allow only a few at a time: if no other can be had, wait for one that another
        thread uses."""
        own = threading.get_ident()
        while True:
            connection = None
            with self.given_back:
                self.opening.append(own)
            try:
                connection = self.next_idle() or Connection(self.address, self.access)
                return connection
            except Throttled as error:
                refusal = error
            finally:
                with self.given_back:
                    self.opening.remove(own)
                    if connection is not None:
                        self.lent[connection] = own
                    self.given_back.notify_all()
            if not self.waited(own):
                raise refusal

    def waited(self, own: int) -> bool:
        """Wait until a connection is idle, or no other thread has one. Return False if there is nothing to wait for."""
        with self.given_back:
            if not self.others(own):
                return False
            return self.given_back.wait_for(lambda: bool(self.idle) or not self.others(own), PATIENCE)

    def others(self, own: int) -> bool:
        return any(user != own for user in (*self.lent.values(), *self.opening))

    def next_idle(self) -> Connection | None:
        """Return an idle connection that still works; None if there is none."""
        while True:
            with self.given_back:
                if not self.idle:
                    return None
                connection = self.idle.pop()
            if connection.alive():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        with self.given_back:
            self.lent.pop(connection, None)
            kept = connection.between and len(self.idle) < IDLE
            if kept:
                self.idle.append(connection)
            self.given_back.notify_all()
        if not kept:
            connection.close()

    def close(self) -> None:
        with self.given_back:
            idle, self.idle = self.idle, []
        for each in idle:
            each.close()
