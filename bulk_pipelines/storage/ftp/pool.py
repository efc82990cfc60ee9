"""The connections to one FTP server. Each transfer has a connection of its own, and idle ones are used again."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bulk_pipelines.errors import Permanent, Transient
from bulk_pipelines.storage.ftp.connection import Connection
from bulk_pipelines.storage.ftp.errors import failures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

IDLE = 4


class Pool:
    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self.access = access
        self.idle: list[Connection] = []
        self.lock = threading.Lock()

    @contextmanager
    def connection(self, url: str) -> Iterator[Connection]:
        """Lend a connection for a few commands. Their errors name `url`."""
        connection = self.take()
        try:
            with failures(url):
                yield connection
        except Transient:
            connection.close()
            raise
        except BaseException as error:
            connection.between = connection.between and isinstance(error, Permanent)
            self.give(connection)
            raise
        self.give(connection)

    def take(self) -> Connection:
        while True:
            with self.lock:
                connection = self.idle.pop() if self.idle else None
            if connection is None:
                return Connection(self.address, self.access)
            if connection.alive():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        with self.lock:
            if connection.between and len(self.idle) < IDLE:
                self.idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for each in idle:
            each.close()
