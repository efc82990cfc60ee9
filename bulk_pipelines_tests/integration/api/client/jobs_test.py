"""The client against a real server: jobs are followed, controlled and looked at, and their files fetched."""

import gzip
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pandas
import pytest

from bulk_pipelines import errors
from bulk_pipelines.client import Client, Export, contents
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.processing import control
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_clients import SOME, run
from bulk_pipelines_tests.scenes.api_exports import completed
from bulk_pipelines_tests.scenes.api_imports import HEADER, done, users
from bulk_pipelines_tests.scenes.api_items import products, shop
from bulk_pipelines_tests.scenes.processing import items
from bulk_pipelines_tests.servers.faulty_proxy import Behind, Fault, FaultyProxy
from bulk_pipelines_tests.servers.provider_server import ProviderServer


def test_afterwards(api: Api, ada: Client, tmp_path: Path) -> None:
    content = SOME + b"x,nobody,Name,reader,true\n"
    over = run(api, ada, content, resource="users")
    assert (over.status, over.error_records) == ("completed_with_errors", 1)
    (reject,) = ada.imports.errors(over.job_id)
    assert (reject.line, reject.field) == (5, "id")
    with ada.imports.download_errors(over.job_id, "ndjson") as pieces:
        assert json.loads(b"".join(pieces))["line"] == 5
    with ada.imports.download_records(over.job_id, "successful") as pieces:
        assert b"".join(pieces) == SOME
    replay = ada.imports.replay(over.job_id)
    assert (replay.replay_of, ada.imports.replay(over.job_id).job_id) == (over.job_id, replay.job_id)
    assert ada.imports.cancel(replay.job_id).status == "cancelled"
    assert ada.imports.undo(over.job_id, dry_run=True).removed == 3
    assert ada.imports.undo(over.job_id).removed == 3
    with pytest.raises(of_jobs.WrongState):
        ada.imports.cancel(over.job_id)
    with pytest.raises(errors.NotFound), ada.imports.download_records("J20200101_000001", "failed") as pieces:
        next(pieces)


def test_rows_are_looked_up(api: Api, ada: Client, tmp_path: Path) -> None:
    def answer(call: Any) -> Any:
        return items() if call.params["q"].startswith("none") else items((call.params["q"].split()[0], 0.9, "2"))

    with ProviderServer(answer) as server:
        shop(api, server.url, recipe="not_found_attempts = 1")
        job = ada.jobs.submit(products("lamp", "none1").encode(), recipe="products", format="csv")
        assert (job.queue_state, job.recipe, job.over) == ("QUEUED", "products", False)
        assert [each.job_id for each in ada.jobs.list(status=["QUEUED"])] == [job.job_id]
        assert ada.jobs.pause(job.job_id).queue_state == "PAUSED"
        assert ada.jobs.resume(job.job_id).queue_state == "RUNNING"
        while ada.jobs.kick_off(job.job_id, 20)["finished_at"] is None:
            pass
        over = ada.jobs.follow(job.job_id, seconds=60)
        assert (over.good, over.items["DONE"], over.items["NOT_FOUND"]) == (True, 1, 1)
        rows = list(ada.jobs.items(job.job_id, sort="row"))
        assert [(row.inputTitle, row.status) for row in rows] == [("lamp", "DONE"), ("none1", "NOT_FOUND")]
        with ada.jobs.export(job.job_id, "csv") as pieces:
            assert b"".join(pieces).startswith(b'"Title","Price"')
        assert ada.jobs.reprocess(job.job_id, itemIds=[rows[1].id], dryRun=True) == 1
        assert ada.jobs.reprocess(job.job_id) == 1
        assert [row.item_key for row in ada.jobs.pending()] == ["000000002"]
        assert ada.jobs.cancel(job.job_id).status == "CANCELLED"
        frame = pandas.DataFrame({"title": ["chair"], "brand": ["Acme"]})
        another = ada.jobs.submit(frame, recipe="products")
        assert control.kick_off(api.engine, another.job_id, 30).job.total_items == 1


def test_exports_and_files(api: Api, ada: Client) -> None:
    run(api, ada, SOME, resource="users")
    with ada.exports.stream("users", format="ndjson", fields=["id", "name"], where=["name=Name 2"]) as pieces:
        assert json.loads(b"".join(pieces))["name"] == "Name 2"

    def work(seen: Export) -> None:
        if not seen.over:
            completed(api.engine, seen.job_id)

    over = ada.exports.run("users", on_look=work, seconds=120, order=["name"], idempotency_key="e")
    assert (over.status, over.record_count, over.good) == ("completed", 3, True)
    with ada.exports.download(over.job_id) as pieces:
        assert hashlib.sha256(b"".join(pieces)).hexdigest() == over.sha256
    again, made = ada.exports.submitted("users", order=["name"], idempotency_key="e")
    assert (again.job_id, made) == (over.job_id, False)
    assert [each.job_id for each in ada.exports.list(status="completed")] == [over.job_id]
    assert ada.exports.cancel(ada.exports.submit("users").job_id).status == "cancelled"
    key = ada.distributions.submit([{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}])
    assert (ada.distributions.get(key).total, list(ada.distributions.files(key))) == (1, [])
    ada.jobs.cancel(key)
    assert ada.distributions.follow(key, seconds=60).status == "CANCELLED"


def test_an_import_is_followed_by_its_events_and_by_looking_where_there_are_none(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    job = ada.imports.submit(users(7), resource="users").job_id
    worker = threading.Timer(3.0, done, (api.engine, job))
    worker.start()
    over = ada.imports.follow(job, on_look=lambda seen: looks.append(seen.status), seconds=120)
    assert over.good
    assert len(looks) < 15, "nobody looks again and again while events come"
    worker.join()
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        proxy.add(Fault("status", method="GET", times=None, status=503, retry_after=0, match="/events"))
        job = client.imports.submit(users(8), resource="users").job_id
        done(api.engine, job)
        assert client.imports.follow(job, seconds=120).good
    other = ada.imports.submit(users(9), resource="users").job_id
    with pytest.raises(TimeoutError):
        ada.imports.follow(other, seconds=1.5)


def test_a_file_is_looked_at_and_mended_records_are_sent(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ada.imports.preview(SOME + b"x,nobody,Name,reader,true\n", resource="users")
    assert (found.judged, found.rejected, found.problem) == (4, 1, None)
    large = SOME + b"".join(users(number)[len(HEADER) :] for number in range(100_000))
    assert ada.imports.preview(large, resource="users").judged == 1_000
    monkeypatch.setattr(contents, "BEGINNING", 50_000)
    monkeypatch.setattr(contents, "LARGEST_LOOK", 60_000)
    packed = ada.imports.preview(gzip.compress(large), resource="users")
    assert (packed.problem, packed.judged, packed.recognised["compression"]) == (None, 1_000, "gzip")
    with pytest.raises(errors.InvalidInput, match="only a text"):
        ada.imports.preview(b"PAR1" + large, resource="users")
    over = run(api, ada, SOME + b"x,nobody,Name,reader,true\n", resource="users")
    mended = ada.imports.replay(over.job_id, users(5), idempotency_key="m")
    assert (mended.replay_of, mended.job_id != over.job_id) == (over.job_id, True)
    assert done(api.engine, mended.job_id).status == "COMPLETED"
