"""The tables are what the declarations say."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import pool
from bulk_pipelines.resources.declaration import PROVENANCE, Resource

COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
    FROM pg_attribute a
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""


def columns(engine: Engine, table: str) -> dict[str, tuple[str, bool]]:
    with pool.transaction(engine) as connection:
        found = connection.execute(COLUMNS, [table]).fetchall()
    names = {"timestamp with time zone": "timestamptz"}
    return {name: (names.get(kind, kind), needed) for name, kind, needed in found}


@pytest.mark.parametrize("resource", resources.RESOURCES, ids=lambda each: each.name)
def test_columns(engine: Engine, resource: Resource) -> None:
    found = columns(engine, resource.table)
    declared = {
        column.name: (column.kind.postgres, column.required or column.fill is not None) for column in resource.columns
    }
    assert {name: found[name] for name in resource.column_names} == declared
    assert tuple(found)[len(declared) :] == PROVENANCE
    assert set(columns(engine, f"{resource.table}_aside")) >= {*resource.column_names, "import_job", "import_line"}


@pytest.mark.parametrize("resource", resources.RESOURCES, ids=lambda each: each.name)
def test_keys_and_references_are_constraints(engine: Engine, resource: Resource) -> None:
    with pool.transaction(engine) as connection:
        indexes = dict(
            connection.execute(
                "SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE i.indisunique AND i.indrelid = %s::regclass",
                [resource.table],
            ).fetchall()
        )
        foreign = dict(
            connection.execute(
                "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE contype = 'f' AND conrelid = %s::regclass",
                [resource.table],
            ).fetchall()
        )
    assert set(indexes) == {key.constraint for key in resource.keys}
    for key in resource.keys:
        expression = f"(lower({key.column}))" if key.ignores_case else f"({key.column})"
        assert indexes[key.constraint].endswith(expression)
    assert foreign == {
        each.constraint: f"FOREIGN KEY ({each.column}) REFERENCES {each.resource}(id)" for each in resource.references
    }


def test_a_row_that_somebody_changes_is_marked(engine: Engine) -> None:
    with pool.transaction(engine) as connection:
        connection.execute(
            "INSERT INTO users (id, email, name, role, import_job, import_line) VALUES"
            " (gen_random_uuid(), 'a@x.org', 'A', 'reader', 1, 1), (gen_random_uuid(), 'b@x.org', 'B', 'reader', 1, 2),"
            " (gen_random_uuid(), 'c@x.org', 'C', 'reader', NULL, NULL)"
        )
        connection.execute("UPDATE users SET name = 'changed' WHERE email <> 'b@x.org'")
        connection.execute("UPDATE users SET name = 'merged', import_job = 2, import_line = 7 WHERE email = 'b@x.org'")
        found = connection.execute("SELECT email, import_revised FROM users ORDER BY email").fetchall()
    assert found == [("a@x.org", True), ("b@x.org", False), ("c@x.org", False)]
