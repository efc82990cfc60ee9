"""The pages for people with tables and files of their own: every command that stands there does what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from bulk_pipelines.drops import sources
from bulk_pipelines.settings import CHECKOUT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

REJECTS = 3
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROWS = {
    "your-tables.md": (
        "SELECT id, customer_id, total::float FROM shop.orders ORDER BY id",
        [(1, 1, 19.5), (2, 2, 1.0), (3, 2, 1.01), (4, 1, 4.0)],
    ),
    "your-files.md": (
        "SELECT id, name, born::text, salary::float, country, note FROM people ORDER BY id",
        [
            (1, "José", "1980-12-31", 1234.56, None, None),
            (2, "Bob", None, None, None, None),
            (3, "Cy", None, None, None, None),
            (4, "Di Doe", None, None, "DE", None),
            (5, "Ed", None, 10.5, "FR", None),
            (6, "Flo", None, None, "FR", "late"),
            (7, "Gil", "1980-12-31", None, None, None),
            (8, "Hal", "1979-01-02", None, None, None),
        ],
    ),
}


@pytest.mark.parametrize("page", ROWS)
def test_every_command_of_the_page_works(page: str, tmp_path: Path, database_url: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {"BULK_HOME": str(tmp_path), "BULK_DATABASE_URL": database_url, "BULK_RESOURCES": str(tmp_path / "declared")}
    environment = os.environ | ours | {"PATH": paths}
    job, said = "", {}
    for kind, text in BLOCK.findall((CHECKOUT / "docs" / page).read_text()):
        if kind == "sql":
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(text.encode(), prepare=False)
        elif kind == "toml":
            (tmp_path / "drops.toml").write_text(text)
            (source,) = sources.load(tmp_path / "drops.toml", (), tmp_path / "inbox")
            assert [rule.table for rule in source.rules] == ["shop.customers", "shop.orders"]
        elif kind == "sh":
            for line in text.splitlines():
                command = line.replace("JOB", job)
                done = subprocess.run(
                    ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
                )
                wanted = REJECTS if "# ends with 3" in line else 0
                assert done.returncode == wanted, command + "\n" + done.stdout + done.stderr
                found = re.search(r"^import (J\w+)", done.stdout)
                job = found[1] if found else job
                said[line] = done.stdout
    query, rows = ROWS[page]
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute(query.encode()).fetchall() == rows
    if page == "your-tables.md":
        errors = next(text for line, text in said.items() if line == "bulk import errors JOB")
        assert "invalid_reference" in errors
        assert "does_not_fit" in errors
        preview = next(text for line, text in said.items() if line.endswith("shop.orders --preview"))
        assert "1 of the first 3 records would be rejected" in preview
        assert preview.splitlines()[-1] == "bulk import orders.csv --table shop.orders"
        assert (folder / "out").is_dir()
        assert said["bulk export orders --format csv --order=-total --to -"].splitlines()[1].startswith("1,1,19.50")
