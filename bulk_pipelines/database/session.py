"""What every session with PostgreSQL sets for itself, so that nothing depends on the role, the database or the
environment.

It is set by `set_config` and not by libpq's `options`, which a pooler such as PgBouncer ignores or refuses.
"""

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bulk_pipelines.errors import InvalidInput, Unavailable
from bulk_pipelines.settings import current

if TYPE_CHECKING:
    from sqlalchemy import URL

OLDEST_SERVER = 15
URL_FIELD = "BULK_DATABASE_URL"
SCHEMA_FIELD = "BULK_SCHEMA"
ENCODING = "UTF8"

# By these, a peer that vanished (because its machine or the network is down) is noticed within about half a minute.
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}

SEARCH_PATH = '"$user", public'
"""PostgreSQL's own default: where names of people are looked for. An address may name another one in its `options`."""
THEIRS = "bulk_pipelines.search_path"
"""The setting in which a session keeps where names of people are looked for."""

SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
TAKEN = frozenset({"public", "information_schema", "dagster"})
"""Schemas that belong to people, to PostgreSQL and to Dagster."""

SETTINGS = {
    # These say how texts and values are written in both directions. Drivers, COPY and our SQL rely on each of them.
    "client_encoding": ENCODING,
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
    "xmloption": "content",
    "timezone_abbreviations": "Default",
    "transform_null_equals": "off",
    # A search by a GIN index must find every row.
    "gin_fuzzy_search_limit": "0",
    # Claiming and settling rely on seeing what others have just committed.
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "exit_on_error": "off",
    # An export may read for hours, and a session that holds a lock may be idle for as long as the work takes.
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # A process that is stopped inside a transaction must not keep its row locks for ever.
    "idle_in_transaction_session_timeout": "5min",
    # This is longer than the limit above, so that only a lock that nobody would ever release ends in an error.
    "lock_timeout": "10min",
}
SETTINGS_SINCE_17 = {"transaction_timeout": "0"}

MESSAGES = "lc_messages"
"""The setting for the language of the server's messages. Only some roles may choose it, so nothing may depend on it."""

# The parts of an address that the environment (PGHOST, PGOPTIONS, …) would fill in where the address leaves them open.
# An empty value is libpq's own default. What proves our identity (PGPASSWORD, PGSSLMODE, …) may come from there.
PLACE: dict[str, Any] = {"host": "", "hostaddr": "", "port": "", "dbname": "", "target_session_attrs": "any"}

WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
OPTION = re.compile(r"(?:-c|--)([\w.-]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Facts:
    """What the server told when a session was set up."""

    pid: int
    encoding: str
    standby: bool
    read_only: bool
    quotes_all: bool
    replays: bool


def arguments(url: "URL", application: str, timeout: int) -> dict[str, Any]:
    """Return the address as libpq's parameters, for any driver."""
    _, parts = url.get_dialect()().create_connect_args(url)
    return completed(parts, application, timeout)


def completed(parts: Mapping[str, Any], application: str, timeout: int) -> dict[str, Any]:
    """Complete libpq's parameters, so that nothing but secrets is left to the environment, and empty `options`."""
    given = {name: value if isinstance(value, int) else joined(value) for name, value in parts.items()}
    if "service" in given:
        place: dict[str, Any] = {}  # libpq's service file names the rest
    else:
        place = PLACE | own_name()
    if "," in str(given.get("host", "")):
        # When several servers are named, the one that takes writes is meant; the others are its standbys.
        place["target_session_attrs"] = "read-write"
    fixed = {"options": "", "client_encoding": ENCODING, "application_name": application, "connect_timeout": timeout}
    return place | given | fixed | KEEPALIVE


def own_name() -> dict[str, str]:
    """Return the user that libpq would name. Where the user id has no name, as in some containers, return nothing: the
    address has to name the user."""
    try:
        return {"user": pwd.getpwuid(os.geteuid()).pw_name}
    except KeyError:
        return {}


def joined(value: str | Sequence[str]) -> str:
    """Join the values of a part of an address that may be given several times."""
    return value if isinstance(value, str) else ",".join(value)


def own_schema() -> str:
    """Return the schema of everything that this program makes."""
    name = current().schema
    if not SCHEMA.fullmatch(name) or name in TAKEN:
        raise InvalidInput(
            SCHEMA_FIELD,
            f"{name!r} cannot be the schema of this program: it is a name of small letters, digits and _, and none of "
            f"{', '.join(sorted(TAKEN))}, or of PostgreSQL's pg_…",
        )
    return name


def settings(named: Mapping[str, str], search_path: str = "") -> dict[str, str]:
    """Return the settings of a session: those that its address names, and those that this program needs. What it makes
    is found before anything of people (`database/namespaces.py`), unless another `search_path` is given."""
    theirs = named.get("search_path", SEARCH_PATH)
    path = {"search_path": search_path} if search_path else {"search_path": first(theirs), THEIRS: theirs}
    return dict(named) | path | SETTINGS


def first(theirs: str) -> str:
    """Return the `search_path` of a session of ours, at an address that names this one."""
    return f'"{own_schema()}", {theirs}' if theirs.strip() else f'"{own_schema()}"'


def named(url: "URL") -> dict[str, str]:
    """Return the settings that the address names in its `options`."""
    return from_options(joined(url.query.get("options", "")))


def from_options(options: str) -> dict[str, str]:
    """Parse the settings in libpq's `options`: `-c name=value` or `--name=value`. Anything else is refused."""
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
    """Return one SELECT that makes all settings and then tells the `Facts`, because an address may make settings, too.
    It has only literals, for any driver to send."""
    since_17 = SETTINGS_SINCE_17 if version >= 17 else {}
    calls = [
        f"pg_catalog.set_config({quoted(name)}, {quoted(value)}, false)" for name, value in (chosen | since_17).items()
    ]
    return f"""
        SELECT CASE WHEN pg_catalog.has_parameter_privilege({quoted(MESSAGES)}, 'SET')
                THEN pg_catalog.set_config({quoted(MESSAGES)}, 'C', false) END,
            {", ".join(calls)},
            pg_catalog.pg_backend_pid(),
            pg_catalog.current_setting('server_encoding'),
            pg_catalog.pg_is_in_recovery(),
            pg_catalog.current_setting('default_transaction_read_only')::pg_catalog.bool,
            pg_catalog.current_setting('quote_all_identifiers')::pg_catalog.bool,
            pg_catalog.current_setting('session_replication_role') = 'replica'
    """


def quoted(text: str) -> str:
    """Return a literal that means the same whatever `standard_conforming_strings` is."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def refuse_old(server_version: int) -> int:
    """Return the server's major version. Refuse a server that is too old."""
    version = server_version // 10_000
    if version < OLDEST_SERVER:
        raise InvalidInput(URL_FIELD, f"the server is PostgreSQL {version}; {OLDEST_SERVER} or newer is needed")
    return version


def refuse_unfit(facts: Facts) -> None:
    """Refuse a database that cannot hold what this program writes, before the first row is written."""
    if facts.encoding != ENCODING:
        raise InvalidInput(
            URL_FIELD,
            f"the database's encoding is {facts.encoding}, and texts are {ENCODING}: make a database with "
            f"CREATE DATABASE … ENCODING '{ENCODING}' TEMPLATE template0, and name that one",
        )
    if facts.standby:
        raise Unavailable("the database is a standby, which only reads: name its primary in BULK_DATABASE_URL")
    if facts.quotes_all:
        # We, and ADBC as soon as it connects, know types and functions by the names that the catalogue writes.
        raise Unavailable(
            "the database writes all names in quotes (quote_all_identifiers is on): set that to off, by ALTER DATABASE "
            "or ALTER ROLE"
        )
    if facts.replays:
        # Rows whose references lead nowhere would be loaded, and nothing would note who changes rows afterwards.
        raise Unavailable(
            "the database looks at no foreign key and fires no trigger (session_replication_role is replica): "
            "set that to origin, by ALTER DATABASE or ALTER ROLE, or leave it out of the address"
        )
    if facts.read_only:
        raise Unavailable(
            "the database is set to be only read (default_transaction_read_only is on): "
            "set that to off, by ALTER DATABASE or ALTER ROLE"
        )
