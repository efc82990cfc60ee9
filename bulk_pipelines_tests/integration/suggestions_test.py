"""What the shell suggests when a person presses the tabulator."""

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import submission
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports.kind import KINDS


def suggested(url: str, *words: str) -> list[str]:
    """Ask as bash does."""
    asked = {"_BULK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("bulk", *words)), "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-c", "from bulk_pipelines.cli import main; main(prog_name='bulk')"]
    variables = os.environ | asked | {"BULK_DATABASE_URL": url}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_jobs_are_suggested(engine: Engine, database_url: str) -> None:
    with transaction(engine) as connection:
        keys = [
            submission.submit(connection, KINDS, Sender("me", "cli").asks("import_users", {})).job.job_key
            for _ in range(2)
        ]
    assert suggested(database_url, "pause", "J") == keys[::-1]
    assert suggested(database_url, "job", "show", keys[0]) == [keys[0]]
    assert suggested(database_url, "job", "show", "nothing") == []


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "nonsense"])
def test_an_error_suggests_nothing(url: str) -> None:
    assert suggested(url, "pause", "J") == []


FILES = {"sources", "source", "to", "request", "query", "files"}
NO_FILES = {"bulk drops list", "bulk drops retry", "bulk drops scan"}
"""Commands to which sources and files are what the ledger calls so."""


def leaves(command: click.Command, path: str = "bulk") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from leaves(below, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=each[0]) for each in leaves(main)])
def test_every_job_resource_and_file_is_suggested(
    path: str, command: click.Command, engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    with transaction(engine) as connection:
        key = submission.submit(connection, KINDS, Sender("me", "cli").asks("import_users", {})).job.job_key
    context = click.Context(command, info_name=path, **main.context_settings)
    for parameter in command.params:
        found = parameter.shell_complete(context, "")
        told = {each.value for each in found}
        if parameter.name in {"job_key", "before"}:
            assert told == {key}
        elif parameter.name in {"resource", "names", "to_table"}:
            assert told == {"users", "articles", "comments"}
        elif parameter.name in {"mode", "statuses"} and path != "bulk reprocess":
            assert told
        elif parameter.name in FILES and path not in NO_FILES:
            assert "file" in {each.type for each in found}, parameter.name


def test_words_of_imports_are_suggested(database_url: str) -> None:
    assert suggested(database_url, "import", "mine.csv", "--resource", "u") == ["users"]
    assert suggested(database_url, "import", "er") == ["errors", "er"]  # the latter stands for files that begin so
    assert suggested(database_url, "import", "--valid") == ["--validate-only"]
    assert suggested(database_url, "export", "art") == ["articles"]
    assert "wikidata" in suggested(database_url, "process", "rows.csv", "--recipe", "wiki")
