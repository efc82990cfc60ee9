"""The documentation names only what exists: make targets, commands, files, settings."""

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from benchmarks import figures
from bulk_pipelines import errors, settings
from bulk_pipelines.cli import main
from bulk_pipelines.engine import errors as engine_errors
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.storage import errors as storage_errors

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").glob("*.md"))]
MAKEFILE = (CHECKOUT / "Makefile").read_text()
MADE = {"cli.md", "json.md"}
"""Pages that are made from the code."""
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
def test_no_page_has_the_marks_of_a_merge(page: Path) -> None:
    assert not re.search("^(<{7}|>{7}) ", page.read_text(), re.MULTILINE)


@each_page
def test_every_command_exists(page: Path) -> None:
    for name in set(re.findall(r"`(?:\.venv/bin/)?bulk ([a-z][a-z-]*)", page.read_text())):
        assert name in main.commands, f"{page.name}: bulk {name}"


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of every command of ours that stands on a line of its own."""
    for line in text.replace("\\\n", " ").splitlines():
        found = re.fullmatch(r"(?: {4}|\$ )?(?:\.venv/bin/)?bulk ((?:--?\w[\w-]* )*[a-z].*)", line)
        if found is None:
            continue
        with suppress(ValueError):  # a sentence of prose may have an apostrophe
            words = shlex.split(re.split(r" [|>] | #", found[1])[0])
            if words[0] in main.commands and not line.endswith((".", ",", ":")):
                yield words


def commands_within(text: str) -> Iterator[list[str]]:
    """Yield the words of every command of ours that stands in a sentence or a table."""
    for found in re.findall(r"`(?:\.venv/bin/)?bulk ([a-z][^`]*)`", re.sub(r"\s+", " ", text)):
        yield shlex.split(found)


@each_page
def test_every_command_that_is_shown_can_be_given(page: Path) -> None:
    """The options of the command are there, and take what they are given."""
    text = page.read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    named = [] if page.name == "CHANGELOG.md" else commands_within(prose)  # it may name an option without a value
    for words in [*commands_in(text), *named]:
        command: click.Command = main
        context, rest = click.Context(main, info_name="bulk", **main.context_settings), words
        while isinstance(command, click.Group) and rest:
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, click.Context(found, info_name=found.name, parent=context)
        if isinstance(command, click.Group):
            continue  # a sentence about all of its commands
        try:
            command.make_parser(context).parse_args(list(rest))
        except click.UsageError as error:
            pytest.fail(f"{page.name}: bulk {' '.join(words)}: {error.message}")


def test_the_commands_of_pages_are_found() -> None:
    found = {page.name: len(list(commands_in(page.read_text()))) for page in PAGES}
    assert found["tutorial.md"] >= 10
    assert found["imports.md"] >= 8
    assert len(list(commands_within("run `bulk jobs` and `bulk\njob show JOB`, or `psql`"))) == 2


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES if page.name not in MADE])
def test_every_command_stands_in_a_block_that_a_test_runs(page: Path) -> None:
    """The tests of pages run blocks of `sh`."""
    rest = re.sub(r"^```(?:sh|text)\b.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert list(commands_in(rest)) == []


@each_page
def test_what_examples_in_python_import_is_there(page: Path) -> None:
    for example in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in ast.parse(example).body:
            if isinstance(line, ast.Import | ast.ImportFrom):
                exec(ast.unparse(line), {})


def test_the_figures_of_the_pages_are_those_that_were_kept() -> None:
    kept = figures.kept()
    for name in ("docs/benchmarks.md", "README.md", "docs/comparison.md"):
        text = (CHECKOUT / name).read_text()
        assert figures.written(text, kept) == text, f"{name}: run make docs"
        assert "<!-- " in text
    ratio = f"{kept['import-dirty'].ratio:.3g}"
    assert figures.written("about 7<!-- import-dirty --> of it", kept) == f"about {ratio}<!-- import-dirty --> of it"


def test_every_figure_that_a_benchmark_tells_stands_in_a_table(tmp_path: Path) -> None:
    """Figures of which a benchmark makes many, with names that it composes, are left out."""
    told = {
        name
        for path in (CHECKOUT / "benchmarks").glob("*.py")
        for name in re.findall(r'report\(\s*"([a-z0-9-]+)"', path.read_text())
    }
    known = {name for table in figures.FIGURES.values() for name in table}
    assert len(told) > 30
    assert told <= known
    assert {name for name in figures.kept() if " " not in name} <= known
    file = tmp_path / "figures.json"
    for ours in (1.0, 2.0):
        figures.keep(file, {"name": "b", "ours": ours, "peer": 4.0, "unit": "s", "ratio": ours / 4})
    figures.keep(file, {"name": "a", "ours": 1, "peer": 1, "unit": "s", "ratio": 1})
    assert [(each.name, each.ratio) for each in figures.kept(file).values()] == [("a", 1), ("b", 0.5)]


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
