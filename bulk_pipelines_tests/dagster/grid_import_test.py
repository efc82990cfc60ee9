"""The grid of a job is imported into a table in one step, by the imports' way."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.processing import Scene

RECIPE = """
[recipe.people]
type = "match"
variants = [{{ name = "name", query = "{{who}}" }}]
columns = [
    {{ header = "email", answer = "mail" }},
    {{ header = "name", input = "who" }},
    {{ header = "role", input = "role" }},
]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
"""


@pytest.mark.long
def test_matched_rows_are_imported_once_with_what_the_source_said(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: Any
) -> None:
    scene = Scene(engine, tmp_path, monkeypatch)
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    register = scene.file("id,name,mail\n1,Ada Lovelace,ada@x.org\n2,Alan Turing,alan@x.org\n", "register.csv")
    scene.declare(RECIPE.format(file=register))
    job = scene.done("people", source=scene.file("who,role\nada lovelace,admin\nalan turing,reader\nnobody,reader\n"))

    def imported() -> str:
        done = CliRunner().invoke(main, ["grid", job.job_key, "--outcome", "matched", "--to-table", "users"])
        assert done.exit_code == 0, done.output
        return done.output

    assert "submitted before" not in imported()
    with transaction(engine) as connection:
        rows = connection.execute("SELECT email, name, role FROM users ORDER BY email").fetchall()
    assert rows == [("ada@x.org", "ada lovelace", "admin"), ("alan@x.org", "alan turing", "reader")]
    assert "submitted before" in imported(), "the same grid is imported once"
    assert not list((tmp_path / "home" / "landed").glob("*/grid.csv"))
