"""The HTTP API as a real server on loopback: in a thread of this process, or as processes of their own that can be
killed."""

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.keys import Key, Scope
from bulk_pipelines.api.serving import serving
from bulk_pipelines.console import application
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port

ROOT = Actor("root", "cli")
PATIENCE = 30.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A TLS context for clients of servers on loopback. A client that may have to trust somebody reads all authorities of
the system when it is made, and tests make thousands of clients."""


@dataclass
class Api:
    """A server, and the keys that were made for it."""

    engine: Engine
    settings: Settings
    url: str
    texts: dict[tuple[str, str], str] = field(default_factory=dict)

    def key(self, owner: str, scope: Scope = Scope.WRITE, expires_at: datetime | None = None) -> tuple[Key, str]:
        with transaction(self.engine) as connection:
            return keys.create(connection, owner, scope, expires_at, ROOT)

    def revoked(self, owner: str) -> str:
        key, text = self.key(owner)
        with transaction(self.engine) as connection:
            keys.revoke(connection, key.key_id, ROOT)
        return text

    def expired(self, owner: str) -> str:
        key, text = self.key(owner, expires_at=datetime.now(UTC) + timedelta(days=1))
        with transaction(self.engine) as connection:
            connection.execute("UPDATE api_key SET expires_at = now() WHERE key_id = %s", [key.key_id])
        return text

    def client(self, owner: str | None = "ada", scope: Scope = Scope.WRITE, **options: Any) -> httpx.Client:
        """Return a client of an owner, or one without a key."""
        headers = {} if owner is None else bearer(self.text(owner, scope))
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE, verify=NO_TLS, **options)

    def text(self, owner: str, scope: Scope = Scope.WRITE) -> str:
        if (owner, scope) not in self.texts:
            self.texts[owner, scope] = self.key(owner, scope)[1]
        return self.texts[owner, scope]

    @property
    def admin(self) -> httpx.Client:
        return self.client("root", Scope.ADMIN)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


@contextmanager
def serving_here(engine: Engine, home: Path, **options: Any) -> Iterator[Api]:
    """Serve in a thread of this process. `options` are settings."""
    chosen = Settings(
        home=home, database_url=engine.url.render_as_string(hide_password=False), api_port=free_port(), **options
    )
    server = serving.server(Door(chosen, engine, loopback=True), application.install)
    with closing(serving.listening("127.0.0.1", chosen.api_port)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until(lambda: server.started, "the API serves", PATIENCE)
        try:
            yield Api(engine, chosen, f"http://127.0.0.1:{chosen.api_port}")
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive(), "the API has not stopped"


@contextmanager
def process(url: str, home: Path, settings: Mapping[str, str] = {}) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Serve in a process of its own, by `bulk api`. Yield the process and the address of the API."""
    port = free_port()
    variables = {"BULK_DATABASE_URL": url, "BULK_HOME": str(home), "BULK_API_PORT": str(port), **settings}
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"api-{port}.log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.cli", "api"],
            env=os.environ | variables,
            cwd=CHECKOUT,
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: lives(running, f"http://127.0.0.1:{port}"), "the API serves", 3 * PATIENCE)
        yield running, f"http://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


def lives(running: "subprocess.Popen[Any]", url: str) -> bool:
    assert running.poll() is None, "the API has ended"
    try:
        return httpx.get(f"{url}/health", verify=NO_TLS).status_code == 200
    except httpx.TransportError:
        return False
