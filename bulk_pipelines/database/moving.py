"""Moving what an older version has made among the tables of people into the schema of its own. It is one transaction: a
process that dies in the middle of it has moved nothing.

What is ours there is told by the files of the migrations that are marked as applied there. The tables of the samples
stay where they are, because people have put their rows into them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, reason
from bulk_pipelines.database.samples import SAMPLES
from bulk_pipelines.errors import Unavailable

MARKS = "_yoyo_migration"
KEPT = (MARKS, "_yoyo_log", "_yoyo_version", "yoyo_lock", *(f"{name}_aside" for name in SAMPLES))
"""Tables of ours that no migration makes by name."""
MADE = re.compile(r"^CREATE (TABLE|SEQUENCE|TYPE) (\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)\((.*?)\) RETURNS", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Made:
    """Something that migrations have made: its kind, as `ALTER` calls it, and its name. The name of a function includes
    the types of its arguments."""

    kind: str
    name: str


def made(files: Iterable[Path]) -> list[Made]:
    """Return what these migrations make, in their order, without the samples."""
    found: dict[Made, None] = {}
    for text in (path.read_text(encoding="utf-8") for path in files):
        found |= dict.fromkeys(Made(kind, name) for kind, name in MADE.findall(text) if name not in SAMPLES)
        found |= dict.fromkeys(Made("FUNCTION", f"{name}({types(given)})") for name, given in FUNCTION.findall(text))
    return list(found)


def types(arguments: str) -> str:
    return ", ".join(each.split()[1] for each in arguments.split(",") if each.strip())


def former_home(connection: Connection, known: Sequence[str], own: str) -> str | None:
    """Return the schema among those of people in which an older version of this program has its tables; None if there
    is none. Migrations of other programs may be marked in a table of the same name."""
    for (schema,) in connection.execute(queries.text("homes", "homes_on_the_path"), {"own": own}).fetchall():
        applied = applied_in(connection, schema)
        if known[0] in applied:
            refuse_strangers(schema, applied - set(known))
            return str(schema)
    return None


def refuse_strangers(schema: str, unknown: set[str]) -> None:
    if unknown:
        raise Unavailable(
            f"the tables of this program in the schema {schema} cannot be moved: {schema}.{MARKS} also marks "
            f"migrations that it does not know ({', '.join(sorted(unknown)[:5])}). They are of a newer version, or "
            "of another program that uses yoyo: update this one, or give the other one a table of its own"
        )


def applied_in(connection: Connection, schema: str) -> set[str]:
    rows = connection.execute(sql.SQL("SELECT migration_id FROM {}").format(sql.Identifier(schema, MARKS)))
    return {name for (name,) in rows}


def move(connection: Connection, home: str, own: str, files: Sequence[Path]) -> None:
    """Move what these migrations have made, within the caller's transaction. Roles that could use it there can use it
    in its new schema."""
    # Types that functions name are looked up there.
    connection.execute("SELECT set_config('search_path', quote_ident(%s), true)", [home])
    things = [*made(files), *(Made("TABLE", name) for name in (*KEPT, *staged(connection, home)))]
    values = {"home": home, "kinds": [each.kind for each in things], "names": [each.name for each in things]}
    here = connection.execute(queries.text("homes", "things_there"), values).fetchall()
    for kind, name in here:
        try:
            connection.execute(
                sql.SQL("ALTER {} {} SET SCHEMA {}").format(sql.SQL(kind), sql.SQL(name), sql.Identifier(own))
            )
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            raise Unavailable(
                f"{name} cannot be moved into the schema {own}, because others are at work on it: stop the workers, "
                "and migrate again. Nothing was moved"
            ) from None
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.DuplicateTable) as error:
            raise Unavailable(
                f"{name} cannot be moved into the schema {own}: {reason(error)}. Nothing was moved"
            ) from None
    for role, may_make in connection.execute(queries.text("homes", "users_of_tables"), {"home": home, "own": own}):
        rights = sql.SQL("USAGE, CREATE" if may_make else "USAGE")
        grantee = sql.Identifier(role) if role else sql.SQL("PUBLIC")
        connection.execute(sql.SQL("GRANT {} ON SCHEMA {} TO {}").format(rights, sql.Identifier(own), grantee))


def staged(connection: Connection, schema: str) -> list[str]:
    """Return the tables that imports under way have for themselves."""
    return [name for (name,) in connection.execute(queries.text("homes", "staged_there"), {"home": schema})]


def names_of(files: Iterable[Path]) -> list[str]:
    return [each.name.partition("(")[0] for each in made(files)] + list(KEPT)


def strangers(connection: Connection, own: str, files: Iterable[Path]) -> list[str]:
    """Return what stands in the schema that is to be ours, and has the name of something that we would make there."""
    values = {"own": own, "names": names_of(files)}
    return [name for (name,) in connection.execute(queries.text("homes", "same_names"), values)]
