"""What every session with PostgreSQL says for itself, so that nothing depends on role, database or environment.

Values travel by `set_config`, not by libpq's `options`: a pooler such as PgBouncer ignores or refuses these.
"""

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL

from bulk_pipelines.errors import InvalidInput, Unavailable

OLDEST_SERVER = 15
URL_FIELD = "BULK_DATABASE_URL"
ENCODING = "UTF8"

# A peer that vanished (its machine lost, the network cut) is noticed within about half a minute.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

SEARCH_PATH = '"$user", public'
"""PostgreSQL's own default. An address may name another one in its `options`."""

SETTINGS = {
    # How texts and values are written in both directions: drivers, COPY and our SQL rely on each of these.
    "client_encoding": ENCODING,
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # Claims and settling count on seeing what others have just committed.
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "exit_on_error": "off",
    # An export may read for hours, and a session that holds a lock may be idle for as long as the work takes.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # A process that is stopped inside a transaction must not keep its row locks for ever.
    "idle_in_transaction_session_timeout": "5min",
    # Longer than that, so that only locks which nobody would ever give back end in an error.
    "lock_timeout": "10min",
}
SETTINGS_SINCE_17 = {"transaction_timeout": "0"}

MESSAGES = "lc_messages"
"""The language of the server's messages. Only some roles may choose it; nothing may depend on it."""

# The parts of an address that the environment (PGHOST, PGOPTIONS, …) would fill in where the address leaves them open.
# An empty value is libpq's own default. What proves who we are (PGPASSWORD, PGSSLMODE, …) may come from there.
PLACE: dict[str, Any] = {"host": "", "hostaddr": "", "port": "", "dbname": "", "target_session_attrs": "any"}

WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
OPTION = re.compile(r"(?:-c|--)([\w.-]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Facts:
    """What a server told when its session was set up."""

    pid: int
    encoding: str
    standby: bool
    read_only: bool


def arguments(url: URL, application: str, timeout: int) -> dict[str, Any]:
    """The address as libpq's parameters, for whichever driver."""
    _, parts = url.get_dialect()().create_connect_args(url)
    return completed(parts, application, timeout)


def completed(parts: Mapping[str, Any], application: str, timeout: int) -> dict[str, Any]:
    """libpq's parameters with nothing left to the environment but secrets, and no `options`."""
    given = {name: value if isinstance(value, int) else joined(value) for name, value in parts.items()}
    if "service" in given:
        place: dict[str, Any] = {}  # a file of libpq's names the rest
    else:
        place = PLACE | own_name()
    if "," in str(given.get("host", "")):
        # Of several servers, the one that takes writes; the others are its standbys.
        place["target_session_attrs"] = "read-write"
    fixed = {"options": "", "client_encoding": ENCODING, "application_name": application, "connect_timeout": timeout}
    return place | given | fixed | KEEPALIVE


def own_name() -> dict[str, str]:
    """The user that libpq would name. A user id without a name, as in some containers, leaves that to the address."""
    try:
        return {"user": pwd.getpwuid(os.geteuid()).pw_name}
    except KeyError:
        return {}


def joined(value: str | Sequence[str]) -> str:
    """A part of an address that may be given several times."""
    return value if isinstance(value, str) else ",".join(value)


def settings(named: Mapping[str, str], search_path: str = "") -> dict[str, str]:
    """What a session is to have: what its address names, and what we need."""
    path = {"search_path": search_path} if search_path else {}
    return {"search_path": SEARCH_PATH} | dict(named) | path | SETTINGS


def named(url: URL) -> dict[str, str]:
    """The settings that the address names in its `options`."""
    return from_options(joined(url.query.get("options", "")))


def from_options(options: str) -> dict[str, str]:
    """The settings in libpq's `options`: `-c name=value` or `--name=value`. Anything else is refused."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in WORD.findall(options)]
    found = {}
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word += words.pop(0)
        named = OPTION.fullmatch(word)
        if named is None:
            raise InvalidInput(URL_FIELD, f"its options may only hold -c name=value; {word!r} is something else")
        found[named[1].replace("-", "_").lower()] = named[2]
    return found


def statement(chosen: dict[str, str], version: int) -> str:
    """One SELECT that sets everything up and tells the facts. Literals only, so every driver can send it."""
    since_17 = SETTINGS_SINCE_17 if version >= 17 else {}
    calls = [
        f"pg_catalog.set_config({quoted(name)}, {quoted(value)}, false)" for name, value in (chosen | since_17).items()
    ]
    return f"""
        SELECT pg_catalog.pg_backend_pid(),
            pg_catalog.current_setting('server_encoding'),
            pg_catalog.pg_is_in_recovery(),
            pg_catalog.current_setting('default_transaction_read_only')::pg_catalog.bool,
            CASE WHEN pg_catalog.has_parameter_privilege({quoted(MESSAGES)}, 'SET')
                THEN pg_catalog.set_config({quoted(MESSAGES)}, 'C', false) END,
            {", ".join(calls)}
    """


def quoted(text: str) -> str:
    """A literal that means the same whatever `standard_conforming_strings` is."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def refuse_old(server_version: int) -> int:
    """The server's major version, which must be new enough."""
    version = server_version // 10_000
    if version < OLDEST_SERVER:
        raise InvalidInput(URL_FIELD, f"the server is PostgreSQL {version}; {OLDEST_SERVER} or newer is needed")
    return version


def refuse_unfit(facts: Facts) -> None:
    """A database that cannot hold what we write is refused before the first row."""
    if facts.encoding != ENCODING:
        raise InvalidInput(
            URL_FIELD,
            f"the database's encoding is {facts.encoding}, and texts are {ENCODING}: make a database with "
            f"CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0, and name that one",
        )
    if facts.standby:
        raise Unavailable("the database is a standby, which only reads: name its primary in BULK_DATABASE_URL")
    if facts.read_only:
        raise Unavailable(
            "the database is set to be only read (default_transaction_read_only is on): "
            "set that to off, by ALTER DATABASE or ALTER ROLE"
        )
