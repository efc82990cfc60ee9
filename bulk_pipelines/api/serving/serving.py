"""Running the API: one process serves until a signal asks it to stop. Requests that are under way then have five
seconds."""

import resource
import signal
import socket
from collections.abc import Callable
from contextlib import closing, suppress

import uvicorn
from sqlalchemy import Engine

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.live import Live
from bulk_pipelines.api.owners import keys
from bulk_pipelines.api.owners.callers import is_loopback
from bulk_pipelines.api.serving.application import Install, application, nothing
from bulk_pipelines.api.serving.connections import Guarded
from bulk_pipelines.database import address, migrations, pool, ready
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.settings import Settings
from bulk_pipelines.telemetry import logs

DRAIN_SECONDS = 5
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048
LOOPBACK = "127.0.0.1"
APPLICATION = "bulk api"


def run(chosen: Settings, say: Callable[[str], None], more: Install = nothing) -> None:
    """Serve the endpoints, and what `more` puts beside them, until a signal asks to stop."""
    logs.set_up(chosen)
    with address.held(chosen) as url:
        prepare(chosen, url)
        made = pool.connect(url, application=APPLICATION, size=chosen.pool_size, timeout=chosen.connect_timeout)
        try:
            host = host_of(chosen, made, say)
            door = Door(chosen, made, loopback=is_loopback(host))
            with closing(listening(host, chosen.api_port)) as listener:
                say(
                    f"console: http://{shown(host)}:{chosen.api_port}/   API: http://{shown(host)}:{chosen.api_port}/docs"
                )
                # uvicorn sends itself the signal again when it has stopped. By default that would end the process
                # before what still arrives is cleared away.
                signal.signal(signal.SIGTERM, lambda _, __: None)
                # Ctrl-C is the usual way to stop the server, and no error.
                with recording.written_regularly(made), suppress(KeyboardInterrupt):
                    server(door, more).run(sockets=[listener])
        finally:
            made.dispose()


def prepare(chosen: Settings, url: str) -> None:
    """Migrate the embedded server's database; refuse any other that its owner has not migrated."""
    if not chosen.database_url:
        ready.migrated(chosen, url)
    elif migrations.pending(url):
        raise Unavailable("the database's schema is not up to date: run `bulk migrate`")


def server(door: Door, more: Install = nothing) -> uvicorn.Server:
    """Return the server. It believes no header about where a request comes from: `callers` decides about that."""
    many_connections()
    live = Live(door.pool)
    return Draining(
        door,
        live,
        uvicorn.Config(
            application(door, live, more),
            http=Guarded,
            ws="none",  # no endpoint speaks WebSocket, and it would get past the bounds of heads
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            backlog=BACKLOG,
        ),
    )


class Draining(uvicorn.Server):
    """A server that first ends what would take long when it is asked to stop: listeners, and slices of work."""

    def __init__(self, door: Door, live: Live, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.door = door
        self.live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.door.stops.ask()
        self.live.close()
        await super().shutdown(sockets)


def host_of(chosen: Settings, made: Engine, say: Callable[[str], None]) -> str:
    """Return the address to listen on: the one that is set, or loopback as long as no key was made, because everybody
    would be let in."""
    if is_loopback(chosen.api_host):
        return chosen.api_host
    with transaction(made) as connection:
        guarded = keys.exist(connection)
    if guarded or chosen.api_proxies:
        return chosen.api_host
    say(
        f"There are no API keys, so the API listens on {LOOPBACK} only, and not on {chosen.api_host}: "
        "bulk keys create --owner NAME makes one, then start it again"
    )
    return LOOPBACK


def listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidInput(
            "BULK_API_PORT",
            f"{shown(host)}:{port} cannot be used ({error.strerror}): name another port or BULK_API_HOST",
        ) from None
    return listener


def shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def many_connections() -> None:
    """Let this process have as many connections open as the system allows: listeners to events stay for long."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
