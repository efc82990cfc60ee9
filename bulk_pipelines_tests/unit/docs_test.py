"""The documentation names only what exists: make targets, commands, files, settings."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from bulk_pipelines import errors, settings
from bulk_pipelines.cli import main
from bulk_pipelines.engine import errors as engine_errors
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.storage import errors as storage_errors

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").glob("*.md"))]
MAKEFILE = (CHECKOUT / "Makefile").read_text()
each_page = pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])


@each_page
def test_every_make_target_exists(page: Path) -> None:
    """A benchmark's target is its file."""
    for target in set(
        re.findall(r"(?:^|`)make ([a-z][a-z0-9_-]*[a-z0-9])\b(?!-[A-Z])", page.read_text(), re.MULTILINE)
    ):
        benchmark = CHECKOUT / "benchmarks" / f"{target.removeprefix('bench-').replace('-', '_')}.py"
        written = re.search(rf"^{re.escape(target)}:", MAKEFILE, re.MULTILINE)
        assert written or (target.startswith("bench-") and benchmark.exists()), f"{page.name}: make {target}"


@each_page
def test_every_command_exists(page: Path) -> None:
    for name in set(re.findall(r"`(?:\.venv/bin/)?bulk ([a-z][a-z-]*)", page.read_text())):
        assert name in main.commands, f"{page.name}: bulk {name}"


@each_page
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@each_page
def test_every_setting_exists(page: Path) -> None:
    known = {each.variable for each in settings.describe()}
    for name in set(re.findall(r"\bBULK_[A-Z0-9_]*[A-Z0-9]\b", page.read_text())):
        assert name in known, f"{page.name}: {name}"


def test_every_promise_names_a_test_that_exists() -> None:
    named = re.findall(r"`([a-z_/]+_test\.py)`", (CHECKOUT / "docs" / "guarantees.md").read_text())
    assert len(set(named)) > 15
    for name in named:
        assert (CHECKOUT / "bulk_pipelines_tests" / name).exists(), name


def test_every_state_and_every_error_is_explained() -> None:
    page = (CHECKOUT / "docs" / "troubleshooting.md").read_text()
    begun = set(re.findall(r"^\| ([A-Za-z_]+(?:, [A-Za-z]+)*) \|", page, re.MULTILINE))
    explained = {name for cell in begun for name in cell.split(", ")}
    kinds = [value for module in (errors, engine_errors, storage_errors) for value in vars(module).values()]
    classes = {each.__name__ for each in kinds if isinstance(each, type) and issubclass(each, Exception)}
    assert explained >= (classes - {"BulkError"}) | set(JobState) | set(ItemState)


def test_make_alone_lists_every_target() -> None:
    # As from a shell, also when the tests themselves were started by make.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "help"], cwd=CHECKOUT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    alone = subprocess.run(["make"], cwd=CHECKOUT, capture_output=True, text=True, env=environment)
    assert alone.stdout == done.stdout
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    assert {line.split()[1] for line in done.stdout.splitlines()} == targets
