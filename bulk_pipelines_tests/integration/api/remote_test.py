"""`bulk --server`: the commands against a server, with the options that they have on a database."""

import json
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_exports import completed
from bulk_pipelines_tests.scenes.api_imports import HEADER, count, done, line, sent, users
from bulk_pipelines_tests.scenes.api_items import products, shop
from bulk_pipelines_tests.scenes.processing import items
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer

Bulk = Callable[..., Result]


@pytest.fixture
def bulk(api: Api, monkeypatch: pytest.MonkeyPatch) -> Bulk:
    """Run `bulk` as somebody who has a server and a key, and no database."""
    monkeypatch.setenv("BULK_SERVER", api.url)
    monkeypatch.setenv("BULK_API_KEY", api.text("ada"))
    monkeypatch.setenv("BULK_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def worker(api: Api) -> Iterator[None]:
    """Work imports as they come, as Dagster would."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.1):
            with transaction(api.engine) as connection:
                there = listing.page(connection, listing.Wanted(statuses=["SUBMITTED"]), 10)
            for job in there:
                if job.kind.startswith("import"):
                    done(api.engine, job.job_key)
                elif job.kind.startswith("export"):
                    completed(api.engine, job.job_key)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join(60)


def test_an_import_and_what_follows(api: Api, bulk: Bulk, worker: None, tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text(HEADER + line(1) + line(2) + "x,nobody,Name,reader,true\n" + "y,nobody,Name,reader,true\n")
    told = ("import", str(file), "--resource", "users", "--idempotency-key", "k")
    said = bulk(*told, code=3).stdout
    key = said.split()[1]
    assert f"{key} COMPLETED_WITH_ERRORS: 4 read, 2 successful, 2 rejected" in said
    assert f"bulk import errors {key}" in said
    assert "submitted before" in bulk(*told, code=3).stdout
    pages = bulk("import", "errors", key, "--limit", "1").stdout.splitlines()
    assert pages[0].startswith("line 4: ")
    assert "invalid" in pages[0]
    assert pages[1].endswith("--after-line 4")
    assert bulk("import", "errors", key, "--after-line", "4").stdout.startswith("line 5: ")
    bulk("import", "errors", key, "--to", str(tmp_path / "errors.csv"))
    assert len((tmp_path / "errors.csv").read_text().splitlines()) == 3
    assert bulk("import", "records", key, "successful").stdout == HEADER + line(1) + line(2)
    assert f"of the records that {key} rejected" in bulk("import", "replay", key, code=1).stdout
    file.write_text(HEADER + line(3) + line(4))
    mended = bulk("import", "replay", key, "--from", str(file), "--idempotency-key", "m").stdout
    assert f"of the records that {key} rejected" in mended
    assert "COMPLETED: 2 read, 2 successful" in mended
    assert "2 rows of" in bulk("import", "undo", key, "--yes").stdout
    assert count(api.engine, "SELECT count(*) FROM users") == 2, "those that were mended stay"
    (shown,) = [each for each in json.loads(bulk("jobs", "--json").stdout) if each["job"] == key]
    assert (shown["state"], shown["kind"], shown["owner"]) == ("COMPLETED_WITH_ERRORS", "import_users", "ada")
    assert key in bulk("job", "show", key, "--watch", code=3).stdout


def test_several_files_are_one_import(api: Api, bulk: Bulk, worker: None, tmp_path: Path) -> None:
    files = [tmp_path / "b" / "users.csv", tmp_path / "a" / "users.csv"]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(HEADER + line(number) + f"x{number},nobody,Name,reader,true\n")
    told = ("import", *map(str, files), "--resource", "users", "--idempotency-key", "k")
    said = json.loads(bulk(*told, "--json", code=3).stdout)
    assert (said["state"], said["read"], said["loaded"], said["rejected"]) == ("COMPLETED_WITH_ERRORS", 4, 2, 2)
    again = json.loads(bulk(*told, "--json", code=3).stdout)
    assert (again["job"], again["submitted_before"]) == (said["job"], True)
    files[0].write_text(HEADER + line(7))
    assert "idempotency key" in bulk(*told, code=1).output
    (shown,) = json.loads(bulk("import", str(files[0]), "--resource", "users", "--preview", "--json").stdout)
    assert shown["preview"]["judged"] == 1
    looked = json.loads(bulk("import", *map(str, files), "--resource", "users", "--preview", "--json").stdout)
    assert [each["preview"]["judged"] for each in looked] == [1, 2]
    rejects = bulk("import", "errors", said["job"], "--as-source").stdout.splitlines()
    assert [each.partition(",")[0] for each in rejects] == ["id", "x0", "x1"]


def test_how_a_file_is_read(api: Api, bulk: Bulk, worker: None, tmp_path: Path) -> None:
    file = tmp_path / "users.txt"
    file.write_text(
        (HEADER + line(1)).replace(",", ";").replace("email", "mail").replace(";active", "").replace(";true", "")
    )
    told = ("--delimiter", ";", "--map", "email=mail", "--null", "nothing", "--constant", "active=true")
    said = bulk("import", str(file), "--resource", "users", *told).stdout
    assert "COMPLETED: 1 read, 1 successful" in said
    refused = bulk("import", str(file), "--resource", "users", "--map", "email", code=1)
    assert "'email' is not of the form COLUMN=VALUE" in refused.output
    assert "only an administrator" in bulk("import", str(file), "--table", "users", code=1).output
    looked = bulk("import", str(file), "--resource", "users", "--preview", code=1).stdout
    assert "cannot be imported like this" in looked
    looked = bulk("import", str(file), "--resource", "users", "--preview", *told).stdout
    assert "email" in looked
    assert "the only record would not be rejected" in looked
    assert looked.splitlines()[-1].startswith("bulk import ")
    (told_json,) = json.loads(bulk("import", str(file), "--resource", "users", "--preview", "--json", *told).stdout)
    assert (told_json["preview"]["judged"], told_json["command"]) == (1, looked.splitlines()[-1])
    file.write_text(file.read_text().replace(line(1).split(",")[0], line(2).split(",")[0]).replace("1@", "2@"))
    more = ("--constant", '{"active": "true"}', "--null", "[", "--validate-only")
    words = ("--server", api.url, "import", "--resource", "users", *told[:6], *more)
    (told_json,) = json.loads(bulk(*words, str(file), "--preview", "--json").stdout)
    assert shlex.split(told_json["command"])[:7] == ["bulk", *words[:3], str(file), *words[3:5]]
    assert "1 read, 1 successful" in bulk(*shlex.split(told_json["command"])[1:]).stdout
    assert "previews only a file" in bulk("import", "s3://b/x", "--resource", "users", "--preview", code=1).output


def test_an_export_comes_to_this_machine(api: Api, bulk: Bulk, worker: None, tmp_path: Path) -> None:
    key = sent(api.client("ada"), users(1, 2)).json()["job_id"]
    until(lambda: engine_jobs.of_key(api.engine, key).finished, "the worker has imported them")
    told = ("export", "users", "--fields", "id,name", "--where", "name=Name 2")
    assert bulk(*told, "--to", "-").stdout.splitlines()[1].endswith(",Name 2")
    said = bulk(*told, "--to", f"{tmp_path}/out/", "--idempotency-key", "k").stdout
    assert "COMPLETED: 1 row" in said
    (file,) = (tmp_path / "out").iterdir()
    assert file.read_text().splitlines()[0] == "id,name"
    assert "submitted before" in bulk(*told, "--idempotency-key", "k").stdout
    assert "/download" in bulk("export", "users", "--format", "parquet").stdout
    assert "only administrators" in bulk("export", "users", "--to", "s3://b/x/", code=1).output
    assert "only an administrator" in bulk("export", "--table", "users", "--to", "-", code=1).output
    query = tmp_path / "query.sql"
    query.write_text("SELECT 1 AS one")
    for named in ([], ["users"]):
        refused = bulk("export", *named, "--query", str(query), "--to", "-", code=1).output
        assert "--query: a server exports only resources and tables" in refused


def test_files_are_distributed(api: Api, bulk: Bulk, tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_text('{"inputs": [{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}]}')
    told = json.loads(bulk("distribute", "submit", str(file), "--idempotency-key", "k").stdout)
    assert json.loads(bulk("distribute", "status", told["jobId"]).stdout)["total"] == 1
    bulk("cancel", told["jobId"])
    assert json.loads(bulk("distribute", "run", told["jobId"], code=1).stdout)["status"] == "CANCELLED"
    assert "works on the database" not in bulk("distribute", "--help").output
    file.write_text("no")
    assert "is not JSON" in bulk("distribute", "submit", str(file), code=1).output


def test_control_of_jobs(api: Api, bulk: Bulk) -> None:
    key = sent(api.client("ada"), users(1)).json()["job_id"]
    assert bulk("pause", key).stdout == f"job {key} is PAUSED\n"
    refused = bulk("job", "show", key, "--watch", code=1)
    assert f"bulk resume {key} goes on with it" in refused.output
    assert bulk("resume", key).stdout == f"job {key} is RUNNING\n"
    assert bulk("cancel", key).stdout == f"job {key} is CANCELLED\n"
    assert "it cannot resume" in bulk("resume", key, code=1).output
    assert "no job has the key" in bulk("pause", "J20200101_000001", code=1).output


def test_rows(api: Api, bulk: Bulk, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(products("lamp", "none1"))

    def answer(call: Call) -> object:
        query = call.params["q"]
        return items() if query.startswith("none") else items((query.split()[0], 0.9, "2"))

    with ProviderServer(answer) as server:
        shop(api, server.url, recipe="not_found_attempts = 1")
        key = bulk("process", str(file), "--recipe", "products", "--submit-only").stdout.split()[1]
        assert '"status": "COMPLETED' in bulk("kickoff", key, "--seconds", "30").stdout
        assert "lamp,2,lamp,matched" in bulk("grid", key).stdout
        bulk("grid", key, "--format", "xlsx", "--to", str(tmp_path / "grid.xlsx"))
        assert (tmp_path / "grid.xlsx").read_bytes().startswith(b"PK")
        assert bulk("reprocess", key, "--dry-run").stdout == "1 row would be tried again\n"
        assert bulk("reprocess", key, "--item", "000000001").stdout == "0 rows are tried again\n"
        assert bulk("reprocess", key, "--item", "000000002", "--where", "brand=Acme").stdout.startswith("1 row is")
        with transaction(api.engine) as connection:
            assert jobs.find(connection, key).pending_items == 1


def test_what_a_server_cannot_do_is_refused(bulk: Bulk, tmp_path: Path) -> None:
    for command in (("up",), ("dlq", "list"), ("migrate",)):
        assert f"`bulk {command[0]}` works on the database" in bulk(*command, code=2).output
    mixed = bulk("import", "a.csv", "https://example.org/b.csv", "--resource", "users", code=1).output
    assert "files of this machine and addresses do not go" in mixed
    assert "a.csv cannot be read" in bulk("import", "a.csv", "--resource", "users", code=1).output
    assert "no query and no table" in bulk("process", "--table", "users", "--recipe", "x", code=1).output
    assert "lists jobs only by one kind" in bulk("jobs", "--text", "x", code=1).output
    assert "'bogus' is not one of 'submitted'" in bulk("jobs", "--state", "bogus", code=2).output
    assert "No such command 'imprt'. Did you mean 'import'?" in bulk("imprt", code=2).output


def test_the_option_says_which_server(api: Api, bulk: Bulk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BULK_SERVER")
    assert "no jobs" in bulk("--server", api.url, "jobs").stdout
    assert "is not an address" in bulk("--server", "bulk.example.org", "jobs", code=1).output
