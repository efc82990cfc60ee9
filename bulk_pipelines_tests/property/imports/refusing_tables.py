"""Tables that refuse what says Refuse, by rules that nobody declared."""

from collections.abc import Callable

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.property.imports.slow_import import Row

COLUMNS = {"users": "name", "articles": "title", "comments": "body"}
"""Where it says so."""

TRIGGER = """
CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.{column} = 'Refuse' THEN {action}; END IF;
    RETURN NEW;
END $$;
CREATE {when} INSERT OR UPDATE ON {table} {deferred} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()
"""
AT_ONCE = ("TRIGGER refuse BEFORE", "")
AT_COMMIT = ("CONSTRAINT TRIGGER refuse AFTER", "DEFERRABLE INITIALLY DEFERRED")


def raising(code: str) -> str:
    return f"RAISE EXCEPTION 'no' USING ERRCODE = '{code}'"


TRIGGERS = {
    "raise": (raising("P0001"), AT_ONCE),
    "row-level security": (raising("42501"), AT_ONCE),
    "a code of one's own": (raising("U0001"), AT_ONCE),
    "a code of the server's own troubles": (raising("53100"), AT_ONCE),
    "no answer": ("RETURN NULL", AT_ONCE),
    "assert": ("ASSERT false", AT_ONCE),
    "a fault in a function": ("PERFORM 1 / 0", AT_ONCE),
    "raise at commit": (raising("P0001"), AT_COMMIT),
    "assert at commit": ("ASSERT false", AT_COMMIT),
}
WAYS = ["check", *TRIGGERS]


def refusal(way: str, table: str, column: str) -> str:
    """The statement that makes the table refuse."""
    if way == "check":
        return f"ALTER TABLE {table} ADD CONSTRAINT refuse CHECK ({column} <> 'Refuse')"
    action, (when, deferred) = TRIGGERS[way]
    return TRIGGER.format(table=table, column=column, action=action, when=when, deferred=deferred)


def make_refuse(engine: Engine, way: str) -> None:
    with transaction(engine) as connection:
        for table, column in COLUMNS.items():
            connection.execute(refusal(way, table, column).encode())


def refused_of(table: str) -> Callable[[Row], bool]:
    """Which rows the table refuses."""
    return lambda row: bool(row[COLUMNS[table]] == "Refuse")
