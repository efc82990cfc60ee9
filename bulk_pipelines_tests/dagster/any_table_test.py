"""A table that nobody has declared, by the command line: imported, adopted, compared with its declaration, exported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.person import Person
from bulk_pipelines_tests.scenes.shop import SCHEMA

REJECTS = 3
HEADER = "Order No,customer_id,total,ordered\n"


@pytest.fixture
def person(tmp_path: Path, database_url: str) -> Person:
    with pool.single(database_url) as connection:
        connection.execute(SCHEMA.encode(), prepare=False)
    person = Person(tmp_path, database_url)
    person.environment["BULK_RESOURCES"] = str(tmp_path / "resources")
    return person


@pytest.mark.long
def test_from_an_unknown_table_to_a_resource(person: Person, tmp_path: Path, database_url: str) -> None:
    source = tmp_path / "orders.csv"
    source.write_text("id,customer_id,total,ordered\n1,1,9.50,2026-01-10\n2,99,1,2026-01-10\n")
    said = person.says("import", str(source), "--table", "shop.orders", code=REJECTS)
    assert "2 read, 1 loaded, 1 rejected" in said
    key = said.split()[1]
    assert "invalid_reference" in person.says("import", "errors", key)
    assert "do not say where they come from" in person.says("import", "undo", key, "--yes", code=1)
    with pool.single(database_url) as connection:
        connection.execute("INSERT INTO shop.customers VALUES (99, 'new@example.org', 'New')")
    assert "1 read, 1 loaded" in person.says("import", "replay", key)

    assert "orders: " in person.says("resources", "adopt", "shop.orders", "--provenance")
    file = tmp_path / "resources" / "orders.toml"
    assert "is there already" in person.says("resources", "adopt", "shop.orders", code=1)
    text = file.read_text()
    file.write_text(text.replace('name = "id"\n', 'name = "id"\nin_files = "Order No"\ncode = "no_such_order"\n', 1))
    assert "orders: as the table" in person.says("resources", "check")
    source.write_text(HEADER + "3,1,9.50,2026-01-10\nx,1,9.50,2026-01-10\n")
    said = person.says("import", str(source), "--resource", "orders", code=REJECTS)
    assert "2 read, 1 loaded, 1 rejected" in said
    assert "no_such_order" in person.says("import", "errors", said.split()[1])
    assert "1 row taken back" in person.says("import", "undo", said.split()[1], "--yes")

    out = person.says("export", "orders", "--where", "total>=5", "--format", "ndjson", "--to", "-")
    assert '"id":1' in out
    assert '"id":2' not in out
    out = person.says("export", "--table", "shop.customers", "--where", "id=99", "--to", "-")
    assert out == "id,email,name\n99,new@example.org,New\n"
    target = tmp_path / "out"
    assert "2 rows" in person.says("export", "orders", "--format", "parquet", "--to", f"{target}/")

    with pool.single(database_url) as connection:
        connection.execute("ALTER TABLE shop.orders RENAME customer_id TO client")
    said = person.says("resources", "check", code=1)
    assert "stops imports: the table has no column customer_id" in said
    said = person.says("import", str(source), "--resource", "orders", code=1)
    assert "is not what its declaration says" in said
    assert "customer_id" not in person.says("resources", "adopt", "shop.orders", "--again").replace("client", "")
    assert 'in_files = "Order No"' in file.read_text()


@pytest.mark.long
def test_a_shell_runs_the_command_that_a_preview_proposes(person: Person, tmp_path: Path, database_url: str) -> None:
    """`proposed_commands_test` draws such names; here the program itself gets what the shell makes of them."""
    with pool.single(database_url) as connection:
        connection.execute('CREATE TABLE shop."a, b" (id integer PRIMARY KEY, "a=b" text, "it\'s, $HOME" numeric)')
    (person.folder / "-e.csv").write_text('id;"Na, me";"`id`";x\n1;Ann;1,5;;\n2;Bob;2,5;;\n')
    told = ("--table", 'shop."a, b"', "--map", '{"a=b": "Na, me"}', "--map", "it's, $HOME=`id`", "--ignore-extra")
    said = person.says("import", "--preview", "--json", *told, "--", "-e.csv", code=1)
    (shown,) = json.loads(said[: said.rindex("]") + 1])
    assert (shown["preview"]["judged"], shown["preview"]["rejected"]) == (2, 0)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["/bin/sh", "-c", shown["command"]], env={**person.environment, "PATH": path}, cwd=person.folder, check=True
    )
    with pool.single(database_url) as connection:
        rows = connection.execute('SELECT * FROM shop."a, b" ORDER BY id').fetchall()
    assert [(id_, name, float(value)) for id_, name, value in rows] == [(1, "Ann", 1.5), (2, "Bob", 2.5)]
