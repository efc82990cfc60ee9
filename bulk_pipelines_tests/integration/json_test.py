"""What commands print with `--json` is what they declare: each of them is asked in an installation in which
something of everything has happened."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter
from sqlalchemy import Engine

from bulk_pipelines import output
from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.exports import submission as exports
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import submission as imports
from bulk_pipelines.imports.afterwards import replays
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.processing import submission as processing
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.settings import current
from bulk_pipelines.terminal import commanding
from bulk_pipelines_tests.scenes import exports as export_scenes
from bulk_pipelines_tests.scenes.furnished import Furnished
from bulk_pipelines_tests.scenes.whole_imports import begun, worked
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said

WITHOUT = {
    "up": "serves until it is stopped",
    "api": "serves until it is stopped",
    "grants": "prints SQL",
    "import records": "prints the content of a file",
    "grid": "prints the content of a file",
}
"""The commands that print no answer, and why."""

KEY = "asked before: "
"""The beginning of the idempotency keys: a key of an owner names one request."""
SOURCES = """
[[source]]
name = "inbox"
where = "{where}"
after = "move"
failed_folder = "failed"
[[source.files]]
glob = "users*"
resource = "users"
"""


def leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from leaves(below, f"{path} {name}".strip())
    else:
        yield path, command


COMMANDS = dict(leaves(main))


class House:
    """The furnished installation, seen from the command line."""

    def __init__(self, made: Furnished, folder: Path, hook: str) -> None:
        self.made, self.engine, self.folder, self.hook = made, made.engine, folder, hook
        self.told: dict[str, Any] = {}

    def key(self, name: str) -> str:
        return self.made.jobs[name].job_key

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def users(self) -> str:
        """Import a file under a key, so that the command that asks again need not work it."""
        path = self.file("again.csv", "email,name,role\njson@example.org,J,reader\nking@example.org,K,king\n")
        with transaction(self.engine) as connection:
            asked = Options("users").request((RequestedFile.of(path),))
            job = imports.submit(connection, asked, commanding.sender(KEY + "import", 0)).job
        worked(self.engine, begun(self.engine, job))
        return path

    def mended(self) -> str:
        path = self.file("mended.csv", "id,email,name,role,active\n,mended@example.org,M,reader,true\n")
        with transaction(self.engine) as connection:
            file = RequestedFile.of(path)
            job = replays.replay_mended(
                connection, self.key("rejected"), [file], commanding.actor(), KEY + "replay"
            ).job
        worked(self.engine, begun(self.engine, job))
        return path

    def exported(self) -> str:
        with transaction(self.engine) as connection:
            asked = ExportRequest.parse({"resource": "users", "to": f"{self.folder}/"})
            job = exports.submit(connection, asked, commanding.sender(KEY + "export", 0)).job
            jobs.start(connection, job.job_key)
        export_scenes.worked(self.engine, job)
        return f"{self.folder}/"

    def processed(self) -> str:
        source = self.file("rows.csv", "title,brand\nVase Erika,Acme\n")
        request = ProcessingRequest.parse(library.load(current()).recipe("products"), source=source)
        with transaction(self.engine) as connection:
            job = processing.submit(connection, request, commanding.sender(KEY + "process", 0)).job
            jobs.start(connection, job.job_key)
        planning.plan(self.engine, job)
        jobs.cancel(self.engine, job.job_key)
        return source

    def table(self) -> str:
        with transaction(self.engine) as connection:
            connection.execute("CREATE TABLE public.parcels (number int PRIMARY KEY, customer text NOT NULL)")
        return "public.parcels"

    def inputs(self) -> str:
        wanted = [{"indexKey": "IDX0001", "effectiveDate": 20240101, "asofindicator": "CLS"}]
        return self.file("inputs.json", json.dumps({"inputs": wanted}))

    def paused(self) -> Job:
        return self.made.jobs["paused"]


Ask = Callable[[House], list[str]]

QUICK: dict[str, Ask] = {
    "migrate": lambda _: [],
    "status": lambda _: [],
    "jobs": lambda _: ["--limit", "3"],
    "job show": lambda house: [house.key("rejected")],
    "audit": lambda _: [],
    "pause": lambda house: [house.key("waiting")],
    "resume": lambda house: [house.key("waiting")],
    "cancel": lambda house: [house.key("waiting")],
    "keys create": lambda _: ["--owner", "json", "--expires", "1d"],
    "keys list": lambda _: [],
    "keys revoke": lambda house: [house.told["keys create"]["key_id"]],
    "notify add": lambda house: [house.hook, "--owner", "ada", "--on", "job.ended", "--private"],
    "notify list": lambda _: [],
    "notify test": lambda house: [house.told["notify add"]["subscription"]],
    "notify remove": lambda house: [house.told["notify add"]["subscription"]],
    "resources list": lambda _: [],
    "resources sample": lambda _: [],
    "resources adopt": lambda house: [house.table()],
    "resources check": lambda _: [],
    "drops list": lambda _: [],
    "drops retry": lambda house: ["users-2026-01-28.csv", "--source", "inbox"],
    "drops scan": lambda _: ["--source", "inbox"],
    "dlq list": lambda _: [],
    "dlq show": lambda house: [str(house.told["dlq list"][0]["item_id"])],
    "dlq redrive": lambda house: ["--job", house.key("undistributed")],
    "dlq discard": lambda house: ["--job", house.key("undistributed"), "--yes"],
    "distribute sample": lambda _: ["--indexes", "1", "--days", "1"],
    "distribute submit": lambda house: [house.inputs()],
    "distribute status": lambda house: [house.key("distributed")],
    "distribute run": lambda house: [house.key("distributed")],
    "import errors": lambda house: [house.key("rejected"), "--limit", "2"],
    "import undo": lambda house: [house.key("loaded"), "--yes"],
    "import file": lambda house: [house.users(), "--resource", "users", "--idempotency-key", KEY + "import"],
    "import replay": lambda house: [
        house.key("rejected"),
        "--from",
        house.mended(),
        "--idempotency-key",
        KEY + "replay",
    ],
    "export": lambda house: ["users", "--to", house.exported(), "--idempotency-key", KEY + "export"],
    "process": lambda house: [house.processed(), "--recipe", "products", "--idempotency-key", KEY + "process"],
    "reprocess": lambda house: [house.key("processed"), "--dry-run"],
    "kickoff": lambda house: [house.key("processed"), "--seconds", "1"],
    "recipes list": lambda _: [],
    "recipes show": lambda _: ["products"],
    "recipes check": lambda _: [],
    "recipes try": lambda house: ["products", house.file("try.csv", "title,brand\nLamp,Acme\n")],
    "review list": lambda house: [house.key("processed")],
    "review decide": lambda house: [house.key("processed"), house.told["review list"][0]["item_key"], "none"],
    "review apply": lambda house: [house.key("processed")],
    "review thresholds": lambda house: [house.key("processed")],
}
SLOW: dict[str, Ask] = {
    "doctor": lambda _: [],
    "sweep": lambda _: [],
    "finalize": lambda _: [],
    "prune": lambda _: ["--dry-run"],
}
"""Commands that start processes of their own, which import Dagster."""


def test_every_command_that_prints_declares_its_json_and_is_tried_here() -> None:
    for path, command in COMMANDS.items():
        if path in WITHOUT:
            assert output.answer_of(command) is None, path
        else:
            assert output.answer_of(command) is not None, f"bulk {path} declares no JSON"
            assert path in QUICK or path in SLOW, f"bulk {path} is not tried"
    assert {*QUICK, *SLOW, *WITHOUT} == set(COMMANDS)


def said(path: str, arguments: list[str]) -> Any:
    """Ask a command for JSON, and compare it with what the command declares: each field is there, and no other."""
    done = CliRunner().invoke(main, [*path.split(), *arguments, "--json"])
    assert done.exit_code in {0, 1, 3}, f"bulk {path}: {done.output}"
    assert not done.exception or isinstance(done.exception, SystemExit), f"bulk {path}: {done.exception!r}"
    assert done.stdout, f"bulk {path}: {done.stderr}"
    answer = json.loads(done.stdout)
    declared = TypeAdapter(output.answer_of(COMMANDS[path]))
    assert declared.dump_python(declared.validate_python(answer), mode="json") == answer, path
    assert "UserWarning" not in done.stderr
    return answer


@pytest.fixture
def house(engine: Engine, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    from bulk_pipelines_tests.scenes.furnished import furnished

    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    (tmp_path / "house").mkdir()
    (tmp_path / "files").mkdir()
    with furnished(engine, tmp_path / "house") as (_, made), ProviderServer(lambda _: Said({})) as web:
        sources = tmp_path / "drops.toml"
        sources.write_text(SOURCES.format(where=tmp_path / "house" / "inbox"))
        monkeypatch.setenv("BULK_DROPS_FILE", str(sources))
        yield House(made, tmp_path / "files", f"{web.url}hook")


def test_what_is_printed_is_what_was_declared(house: House) -> None:
    for path, ask in QUICK.items():
        house.told[path] = said(path, ask(house))
    again = house.told["import file"]
    assert (again["submitted_before"], again["loaded"], again["rejected"]) == (True, 1, 1)
    preview = said("import file", [str(house.folder / "again.csv"), "--resource", "users", "--preview"])
    assert preview[0]["preview"]["rejected"] == 1
    with_download = CliRunner().invoke(main, ["import", "errors", house.key("rejected"), "--as-source", "--json"])
    assert (with_download.exit_code, with_download.stdout) == (2, "")


@pytest.mark.long
def test_what_the_passes_print_is_what_was_declared(house: House) -> None:
    for path, ask in SLOW.items():
        said(path, ask(house))
