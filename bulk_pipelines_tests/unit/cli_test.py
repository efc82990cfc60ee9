"""The command line: complete reference, quick help, one-line errors."""

import subprocess
import sys
import time
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from bulk_pipelines import reference
from bulk_pipelines.cli import main


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


def test_an_error_of_the_user_is_one_line_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_UI_PORT", "many")
    for command in ("up", "migrate", "doctor", "status"):
        done = CliRunner().invoke(main, [command])
        assert done.exit_code == 1
        assert done.output == "Error: BULK_UI_PORT: 'many' is not a whole number\n"


def test_the_password_of_the_database_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/none")
    monkeypatch.setenv("BULK_CONNECT_TIMEOUT", "2")
    for command in ("migrate", "status", "doctor"):
        done = CliRunner().invoke(main, [command])
        assert done.exit_code == 1
        assert "127.0.0.1" in done.output
        assert "s3cret" not in done.output
        assert "Traceback" not in done.output
