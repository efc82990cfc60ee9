"""The import linter's contracts see what they forbid: each rule is broken once in a copy of the package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BROKEN = {
    "a slice's plain module imports Dagster": ("imports/later.py", "import dagster"),
    "the engine imports Dagster": ("engine/later.py", "from dagster import op"),
    "a module deep in a slice imports a Dagster library": ("exports/deep/later.py", "import dagster_aws.s3"),
    "one slice imports another": ("exports/later.py", "from bulk_pipelines.imports import later"),
    "the engine imports a slice": ("engine/later.py", "from bulk_pipelines.imports import later"),
    "the database imports the engine": ("database/later.py", "import bulk_pipelines.engine"),
    "storage imports a slice": ("storage/later.py", "import bulk_pipelines.imports.later"),
    "resources import a slice": ("resources/later.py", "import bulk_pipelines.imports.later"),
    "orchestration imports a slice": ("orchestration/later.py", "import bulk_pipelines.imports.later"),
    "columns import the engine": ("columns/later.py", "import bulk_pipelines.engine"),
    "a stage of imports knows a later one": ("imports/plan/later.py", "import bulk_pipelines.imports.load"),
    "a stage of an import's plan knows a later one": (
        "imports/plan/inspect/later.py",
        "import bulk_pipelines.imports.plan.cut",
    ),
    "a stage of exports knows a later one": ("exports/read/later.py", "import bulk_pipelines.exports.publish"),
    "the API imports the console": ("api/later.py", "import bulk_pipelines.console"),
    "a slice imports the console": ("imports/later.py", "import bulk_pipelines.console"),
    "what is around the console's pages knows a page": ("console/frame.py", "import bulk_pipelines.console.pages"),
    "the client reads the database": ("client/later.py", "import psycopg"),
    "a new top-level module has no place": ("helpers.py", ""),
}

ALLOWED = {
    "a slice's definitions import Dagster": ("imports/definitions.py", "import dagster"),
    "definitions of a later, deeper folder import Dagster": ("imports/deep/definitions.py", "import dagster as dg"),
    "the Dagster resources import Dagster": ("orchestration/resources.py", "import dagster"),
    "a stage of imports knows an earlier one": ("imports/load/later.py", "import bulk_pipelines.imports.plan"),
    "a page of the console imports a slice and the API": (
        "console/pages/later.py",
        "import bulk_pipelines.imports.later, bulk_pipelines.api",
    ),
    "a slice imports the engine and storage": (
        "imports/later.py",
        "import bulk_pipelines.engine, bulk_pipelines.storage",
    ),
}

STAGES = [f"imports/{name}" for name in ("plan", "records", "validate", "load", "reconcile")]
STAGES += [f"imports/plan/{name}" for name in ("land", "inspect", "cut")]
STAGES += [f"exports/{name}" for name in ("read", "formats", "publish")]
STAGES += ["console/pages"]


def kept(place: Path, file: str, text: str) -> bool:
    """Whether all contracts hold when this file stands in a skeleton of the package."""
    slices = ("api", "console", "client", "imports", "exports", "engine", "storage", "resources", "database", *STAGES)
    for each in (*(f"{name}/__init__.py" for name in (*slices, "settings")), "errors.py", "imports/later.py", file):
        path = place / "bulk_pipelines" / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        for folder in path.relative_to(place).parents:
            if folder.parts:
                (place / folder / "__init__.py").touch()
    (place / "bulk_pipelines" / file).write_text(text)
    shutil.copy(ROOT / "pyproject.toml", place)
    linter = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as run; run()"
    done = subprocess.run([sys.executable, "-c", linter, "--no-cache"], cwd=place, capture_output=True, text=True)
    assert "7 kept, 0 broken" in done.stdout or "6 kept, 1 broken" in done.stdout, done.stdout + done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_seen(case: str, tmp_path: Path) -> None:
    assert not kept(tmp_path, *BROKEN[case])


@pytest.mark.parametrize("case", ALLOWED)
def test_what_is_allowed_passes(case: str, tmp_path: Path) -> None:
    assert kept(tmp_path, *ALLOWED[case])
