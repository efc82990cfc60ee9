"""The command line: complete reference, quick help, one-line errors."""

import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psycopg
import pytest
import sqlalchemy.exc
from click.testing import CliRunner

from bulk_pipelines import examples, reference
from bulk_pipelines.cli import main
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.telemetry import error_log


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands(below, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=each[0]) for each in commands(main, "bulk")])
def test_every_command_and_option_is_documented_and_explained(path: str, command: click.Command) -> None:
    page = reference.cli_page()
    assert f"## {path}\n" in page
    assert command.help, f"{path} says nothing about itself"
    for option in (each for each in command.params if isinstance(each, click.Option)):
        assert option.help, f"{path} {option.opts[0]} has no help"
        assert all(name in page for name in option.opts)


def leaves(command: click.Command, path: str = "bulk") -> Iterator[tuple[str, click.Command]]:
    for name, each in commands(command, path):
        if not isinstance(each, click.Group):
            yield name, each


def test_every_command_has_examples_with_every_option_and_they_are_right() -> None:
    shown = set()
    for path, command in leaves(main):
        found = examples.of(path)
        assert found, f"{path} has no example"
        shown |= set(found)
        told: set[str] = set()
        # A command keeps the option of its first context that is asked for help.
        context = click.Context(
            command, info_name=path, terminal_width=200, max_content_width=200, **main.context_settings
        )
        for each in found:
            words = shlex.split(each)
            _, _, order = command.make_parser(context).parse_args(words[len(path.removesuffix(" file").split()) :])
            told |= {str(one.name) for one in order}
        options = {str(each.name) for each in command.params if isinstance(each, click.Option)} - {"json"}
        assert options <= told, f"{path}: no example has {options - told}"
        help_ = command.get_help(context)
        assert all(each in help_ for each in found)
    assert shown == set(examples.lines()), "each example is one of a command"


def test_the_help_of_imports_shows_the_options_that_people_type() -> None:
    shown = CliRunner().invoke(main, ["import", "--help"]).output
    file = next(each for path, each in leaves(main) if path == "bulk import file")
    for option in (each for each in file.params if isinstance(each, click.Option)):
        assert all(name in shown for name in option.opts), option.name
    assert "bulk import users.csv --resource users\n" in shown


@pytest.mark.parametrize(("typed", "meant"), [("imprt", "import"), ("dlq lst", "list")])
def test_what_was_mistyped_gets_a_suggestion(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, typed.split())
    assert (result.exit_code, f"Did you mean {meant!r}?" in result.output) == (2, True), result.output


def test_help_imports_nothing_heavy() -> None:
    """Time is measured too, but the modules are what makes it long."""
    heavy = {"dagster", "pyarrow", "sqlalchemy", "psycopg", "yoyo", "obstore", "boto3", "pandas", "numpy"}
    script = (
        "import sys\nfrom bulk_pipelines.cli import main\nmain(['--help'], standalone_mode=False)\nprint(*sys.modules)"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert time.monotonic() - started < 2
    assert heavy.isdisjoint(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("content", [b"emial,nme\na@b.c,x\n", b"[]\n", b""])
def test_a_file_that_does_not_fit_is_told_before_a_database_is_thought_of(content: bytes, tmp_path: Path) -> None:
    """The refusal costs a third of a second; with what a database needs it would cost three times as much."""
    file = tmp_path / "users.csv"
    file.write_bytes(content)
    script = (
        "import sys, click\nfrom bulk_pipelines.cli import main\n"
        f"try: main(['import', {str(file)!r}, '--resource', 'users'], standalone_mode=False)\n"
        "except click.ClickException as error: print(error)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    said, modules = done.stdout.splitlines()
    assert said.startswith("source: ")
    heavy = {"dagster", "sqlalchemy", "psycopg", "yoyo", "obstore", "boto3", "pandas", "httpx"}
    assert heavy.isdisjoint(modules.split())


def test_an_error_of_the_user_is_one_line_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_UI_PORT", "many")
    for command in ("up", "migrate", "doctor", "status"):
        done = CliRunner().invoke(main, [command])
        assert done.exit_code == 1
        assert done.output == "Error: BULK_UI_PORT: 'many' is not a whole number\n"


def test_the_password_of_the_database_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/none")
    monkeypatch.setenv("BULK_CONNECT_TIMEOUT", "2")
    for command in ("migrate", "status"):  # the doctor's own tests ask the doctor
        done = CliRunner().invoke(main, [command])
        assert done.exit_code == 1
        assert "127.0.0.1" in done.output
        assert "s3cret" not in done.output
        assert "Traceback" not in done.output


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Exception], str]:
    """What a command says that meets an error which nobody has foreseen."""
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))

    def said(error: Exception) -> str:
        def fail() -> None:
            raise error

        monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=fail))
        done = CliRunner().invoke(main, ["fail"])
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    return said


def test_an_error_that_nobody_foresaw_is_one_line_and_its_traceback_is_kept(
    failing: Callable[[Exception], str], tmp_path: Path
) -> None:
    log = tmp_path / "home" / "logs" / "errors.log"
    assert failing(ZeroDivisionError("by\nzero")) == f"Error: ZeroDivisionError: by zero (details in {log})\n"
    assert failing(KeyError()) == f"Error: KeyError (details in {log})\n"
    kept = log.read_text()
    assert kept.count("Traceback (most recent call last)") == 2
    assert "ZeroDivisionError: by\nzero" in kept
    assert log.stat().st_mode & 0o077 == 0


def test_the_log_of_errors_does_not_grow_for_ever(failing: Callable[[Exception], str], tmp_path: Path) -> None:
    failing(ValueError("first"))
    log = tmp_path / "home" / "logs" / "errors.log"
    with log.open("a") as grown:
        grown.write("x" * error_log.LONGEST)
    failing(ValueError("second"))
    assert "first" not in log.read_text()
    assert "first" in log.with_suffix(".log.old").read_text()


def test_where_the_home_cannot_be_written_the_traceback_is_kept_elsewhere(
    failing: Callable[[Exception], str], tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("a file stands where the folder should be")
    found = re.fullmatch(r"Error: ValueError: x \(details in (.*)\)\n", failing(ValueError("x")))
    assert found is not None
    log = Path(found[1])
    assert "ValueError: x" in log.read_text()
    log.unlink()


def test_what_the_database_said_is_shown_without_advertisement(failing: Callable[[Exception], str]) -> None:
    lost = sqlalchemy.exc.OperationalError("SELECT 1", {}, psycopg.OperationalError("server closed"), code="e3q8")
    assert "Background on this error" in str(lost)
    assert failing(lost).startswith("Error: OperationalError: server closed (details in ")
    full = sqlalchemy.exc.TimeoutError("QueuePool limit", code="3o7r")
    assert "Background on this error" in str(full)
    assert failing(full).startswith("Error: TimeoutError: QueuePool limit (details in ")


def test_the_version_is_the_same_everywhere() -> None:
    wanted = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert CliRunner().invoke(main, ["--version"]).output == f"bulk, version {wanted}\n"
    [newest, *_] = re.findall(r"^## (\S+?),? ", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == wanted
