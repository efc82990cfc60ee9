"""Rows are tried again as somebody chooses, slices are worked by hand, and the grid can be had at any time."""

import csv
import io
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.engine.jobs import audit, dispatch, jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.dispatch import DispatchLimits
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.drain import End
from bulk_pipelines.engine.worker.stopping import Stop
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.processing import control
from bulk_pipelines.processing.control import Chosen
from bulk_pipelines.processing.report import grid
from bulk_pipelines.processing.report.grid import GridFormat
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said


class Moody:
    """A shop that can be told what to answer."""

    def __init__(self) -> None:
        self.good = False

    def __call__(self, call: Call) -> Any:
        query = call.params["q"]
        if self.good:
            return items((query.split()[0], 0.9, "1"))
        return {"items": []} if query.startswith("none") else Said({}, 400)


def test_all_that_match_a_filter_are_tried_again(scene: Scene) -> None:
    moody = Moody()
    with ProviderServer(moody) as server:
        scene.shop(server.url, "keep_nothing_days = 0", "not_found_attempts = 1\nattempts = 1")
        job = scene.done(source=scene.file("title,brand\nnone1,A\nnone2,B\nbad1,A\nbad2,B\nbad3,A\n"))
        assert (job.not_found_items, job.dlq_items, job.status) == (2, 3, JobState.FAILED)

        def count(**given: Any) -> int:
            return control.reprocess(scene.pool, job.job_key, Chosen.parse(**given), dry_run=True)

        assert count() == 5
        assert count(statuses=["ERROR"]) == 3
        assert count(statuses=["not_found"]) == 2
        assert count(where=["brand=A"]) == 3
        assert count(where=["brand=A"], statuses=["DLQ"]) == 2
        assert count(item_keys=["000000001", "000000003"]) == 2
        assert count(error_like="ANSWERED 400") == 3
        assert count(error_class="permanent") == 3
        assert count(where=["brand=%"]) == 0
        assert scene.job(job.job_key).pending_items == 0, "a dry run changes nothing"
        moody.good = True
        assert control.reprocess(scene.pool, job.job_key, Chosen.parse(where=["brand=A"])) == 3
        job = scene.worked(job)
        assert (job.succeeded_items, job.not_found_items, job.dlq_items) == (3, 1, 1)
        assert control.reprocess(scene.pool, job.job_key, Chosen.parse(), variants=["title"]) == 2
        job = scene.worked(job)
    assert job.status is JobState.COMPLETED
    by_title = {row["Title"]: row["Variant"] for row in scene.grid(job)}
    assert (by_title["none1"], by_title["none2"]) == ("title and brand", "title")
    engine_jobs.check_counters(scene.pool, job)


def test_only_rows_with_tries_left_may_be_tried_again_and_keep_their_attempts(scene: Scene) -> None:
    moody = Moody()
    with ProviderServer(moody) as server:
        scene.shop(server.url, "keep_nothing_days = 0", "not_found_attempts = 1\nattempts = 3")
        job = scene.done(source=scene.file("title,brand\nnone1,A\nbad1,A\nbad2,B\n"))
        assert (job.not_found_items, job.dlq_items) == (1, 2)
        ids = {key: row.item_id for key, row in engine_jobs.rows(scene.pool, job).items()}
        with transaction(scene.pool) as connection:  # one has spent its tries, the other was refused at its first
            connection.execute("UPDATE job_item SET attempt_count = 3 WHERE item_id = %s", [ids["000000002"]])
        assert control.reprocess(scene.pool, job.job_key, Chosen.parse(), keep_attempts=True, dry_run=True) == 1
        chosen = Chosen(item_ids=(ids["000000001"], ids["000000002"]))
        assert control.reprocess(scene.pool, job.job_key, chosen, keep_attempts=True) == 0
        by = Actor("me", "api", admin=False)
        with pytest.raises(UnknownJob):
            control.reprocess(scene.pool, job.job_key, chosen, by=Actor("eve", "api", admin=False))
        assert control.reprocess(scene.pool, job.job_key, Chosen.parse(), keep_attempts=True, by=by) == 1
        assert engine_jobs.rows(scene.pool, job)["000000003"].attempt_count == 1
        assert control.reprocess(scene.pool, job.job_key, chosen, by=by) == 2
        assert engine_jobs.rows(scene.pool, job)["000000002"].attempt_count == 0
        with transaction(scene.pool) as connection:
            noted = audit.page(connection, audit.Wanted(job_key=job.job_key, action="redrive"))
        assert [(each.actor, each.details) for each in noted] == [("me", {"count": 2}), ("me", {"count": 1})]
        moody.good = True
        job = scene.worked(job)
    assert (job.status, job.succeeded_items) == (JobState.COMPLETED, 3)


def test_what_cannot_be_tried_again(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")
    job = scene.planned(source=scene.products("lamp"))
    with pytest.raises(InvalidInput, match="no variant 'x'"):
        control.reprocess(scene.pool, job.job_key, Chosen.parse(), variants=["x"])
    with pytest.raises(InvalidInput):
        Chosen.parse(["DONE"])
    with pytest.raises(InvalidInput):
        Chosen.parse(where=["brand"])
    jobs.cancel(scene.pool, job.job_key)
    with pytest.raises(Conflict):
        control.reprocess(scene.pool, job.job_key, Chosen.parse())


def test_slices_by_hand_come_to_the_end_and_heed_a_pause(scene: Scene) -> None:
    with ProviderServer(lambda _: items(("x", 0.9, "1")), seconds=0.02) as server:
        scene.shop(server.url)
        job = scene.submitted(source=scene.products(*[f"t{number}" for number in range(150)]))
        first = control.kick_off(scene.pool, job.job_key, 0.4)
        assert first.drained is not None
        assert 0 < first.drained.worked < 150
        with transaction(scene.pool) as connection:
            jobs.pause(connection, job.job_key)
        assert control.kick_off(scene.pool, job.job_key, 5).drained is None
        assert scene.job(job.job_key).status is JobState.PAUSED
        with transaction(scene.pool) as connection:
            jobs.resume(connection, job.job_key)
        while (kicked := control.kick_off(scene.pool, job.job_key, 1)).job.status is JobState.RUNNING:
            engine_jobs.check_counters(scene.pool, job)
        assert kicked.job.status is JobState.COMPLETED
        assert len(server.calls) == 150
    with pytest.raises(InvalidInput):
        control.kick_off(scene.pool, job.job_key, 0)


def test_a_pause_in_the_middle_of_a_batch_gives_the_rest_of_it_back(scene: Scene) -> None:
    """The rows of the claim that were not begun cost no attempt, and no row is asked for twice."""
    asked: list[str] = []

    def shop(call: Call) -> Any:
        asked.append(call.params["q"].split()[0])
        if len(asked) == 5:
            with transaction(scene.pool) as connection:
                jobs.pause(connection, job.job_key)
        return items((asked[-1], 0.9, "1"))

    with ProviderServer(shop, seconds=0.1) as server:
        scene.shop(server.url, recipe="at_once = 1")
        job = scene.planned(source=scene.products(*[f"t{number}" for number in range(60)]))
        kicked = control.kick_off(scene.pool, job.job_key, 60)
        assert (kicked.job.status, kicked.ended) == (JobState.PAUSED, "paused")
        rows = scene.rows(job)
        assert 5 <= len(asked) < 30, "it stops within the claim"
        assert [row.attempt_count for row in rows] == [1 if row.status == "SUCCEEDED" else 0 for row in rows]
        assert {row.status for row in rows} == {"SUCCEEDED", "PENDING"}
        engine_jobs.check_counters(scene.pool, job)
        with transaction(scene.pool) as connection:
            jobs.resume(connection, job.job_key)
        server.seconds = 0.0  # nobody stops it any more
        job = scene.worked(job)
    assert (job.status, job.succeeded_items) == (JobState.COMPLETED, 60)
    assert sorted(asked) == sorted(f"t{number}" for number in range(60)), "each row was asked for once"


def test_a_kick_off_whose_time_is_over_leaves_the_rest_of_the_rows_to_the_next(scene: Scene) -> None:
    with ProviderServer(lambda _: items(("x", 0.9, "1"))) as server:
        scene.shop(server.url)
        job = scene.submitted(source=scene.file("title,brand\n" + "lamp,Acme\n" * 20_000))
        counts = []
        while scene.job(job.job_key).planned_at is None:
            kicked = control.kick_off(scene.pool, job.job_key, 0.05, by=Actor("me", "api"))
            counts.append(kicked.job.total_items)
            engine_jobs.check_counters(scene.pool, job)
        assert counts == sorted(counts)
        assert counts[-1] == 20_000
        stop = Stop()
        stop.set()
        kicked = control.kick_off(scene.pool, job.job_key, 60, stop=stop)
    assert kicked.drained is not None
    assert (kicked.drained.end, kicked.ended) == (End.STOPPED, "stopped")
    keys = list(engine_jobs.rows(scene.pool, job))
    assert keys == [f"{number:09}" for number in range(1, 20_001)]


@pytest.mark.parametrize("offered", [False, True])
def test_a_kick_off_leaves_the_job_to_whoever_is_to_launch_it(scene: Scene, offered: bool) -> None:
    """A kick-off works beside the run that the job is to have, and when its time is over that run goes on."""

    def offers() -> list[str]:
        with transaction(scene.pool) as connection:
            connection.execute("UPDATE job SET offered_at = offered_at - interval '1 hour'")
            return [each.key for each in dispatch.offers(connection, [job.kind], DispatchLimits())]

    with ProviderServer(lambda _: items(("x", 0.9, "1")), seconds=0.02) as server:
        scene.shop(server.url)
        job = scene.submitted(source=scene.products(*[f"t{number}" for number in range(150)]))
        if offered:
            assert offers() == [f"{job.job_key}:0"]
        kicked = control.kick_off(scene.pool, job.job_key, 0.2)
    assert kicked.job.status is JobState.RUNNING
    assert offers() == [f"{job.job_key}:0"], "one launch, however often it is offered"


def test_the_grid_is_the_same_in_every_format_while_the_job_runs(scene: Scene) -> None:
    with ProviderServer(lambda call: items((call.params["q"].split()[0], 0.9, "=1+1"))) as server:
        scene.shop(server.url)
        odd = ["lamp", 'a "b"', "ä\nö", "x" * 300]
        content = io.StringIO()
        csv.writer(content).writerows([["title", "brand"], *([each, "Acme"] for each in odd)])
        job = scene.planned(source=scene.file(content.getvalue()))
        before = scene.grid(job)
        assert [(row["Title"], row["Outcome"], row["Price"]) for row in before] == [(each, "open", "") for each in odd]
        job = scene.worked(job)
    rows = scene.grid(job)
    assert [row["Title"] for row in rows] == odd
    ids = [row.item_id for row in engine_jobs.rows(scene.pool, job).values()]
    with transaction(scene.pool) as connection:
        shown = grid.cells_of(connection, grid.of_job(connection, job.job_key), ids[1:])
    assert [{name: cell or "" for name, cell in shown[each].items()} for each in ids[1:]] == rows[1:]
    assert {row["Price"] for row in rows} == {"=1+1"}
    xlsx = b"".join(grid.written(scene.pool, job.job_key, GridFormat.XLSX))
    sheet = openpyxl.load_workbook(io.BytesIO(xlsx)).active
    assert sheet is not None
    header, *cells = [[cell or "" for cell in row] for row in sheet.iter_rows(values_only=True)]
    assert header == list(rows[0])
    assert cells == [list(row.values()) for row in rows]
    table = pq.read_table(io.BytesIO(b"".join(grid.written(scene.pool, job.job_key, GridFormat.PARQUET))))
    assert [[cell or "" for cell in row.values()] for row in table.to_pylist()] == cells
    with transaction(scene.pool) as connection:
        page = grid.first_rows(connection, grid.of_job(connection, job.job_key), 10)
    assert [[cell or "" for cell in row] for row in page] == cells


def test_a_recipe_without_columns_shows_the_source_and_the_evidence(scene: Scene) -> None:
    with ProviderServer(lambda _: items(("lamp-1", 0.9, "1"))) as server:
        scene.shop(server.url)
        text = (scene.recipes / "shop.toml").read_text()
        start, stop = text.index("columns = ["), text.index("[[recipe")
        scene.declare(text[:start] + "\n" + text[stop:])
        job = scene.done(source=scene.file("title,name\nlamp,n\n"))
    (row,) = scene.grid(job)
    assert row == {
        "title": "lamp",
        "name": "n",
        "outcome": "matched",
        "id": "lamp-1",
        "match name": "Lamp-1",
        "score": "0.9",
        "reason": "",
    }


def test_the_commands(scene: Scene, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    with ProviderServer(lambda _: items(("lamp-1", 0.9, "1"))) as server:
        scene.shop(server.url, 'secret_headers = { X-Key = "{SHOP_KEY}" }')
        monkeypatch.setenv("SHOP_KEY", "hush")
        source = scene.products("lamp", "chair")

        def bulk(*arguments: str) -> str:
            done = CliRunner().invoke(main, arguments, catch_exceptions=False)
            assert done.exit_code == 0, done.output
            return done.output

        assert "products" in bulk("recipes", "list")
        assert '"needs"' in bulk("recipes", "show", "products")
        assert "all are right" in bulk("recipes", "check")
        tried = bulk("recipes", "try", "products", source, "--rows", "1")
        assert "GET search?q=lamp Acme" in tried
        assert '"outcome": "matched"' in tried
        assert "hush" not in tried
        with transaction(scene.pool) as connection:
            kept = connection.execute("SELECT count(*) FROM provider_answer").fetchone()
        assert kept == (0,), "a trial stores nothing"
        said = bulk("process", source, "--recipe", "products", "--submit-only", "--idempotency-key", "k")
        key = said.split()[1]
        assert "submitted before" in bulk(
            "process", source, "--recipe", "products", "--submit-only", "--idempotency-key", "k"
        )
        assert '"status": "COMPLETED"' in bulk("kickoff", key, "--seconds", "20")
        assert bulk("grid", key).splitlines()[1].startswith("lamp,1,lamp-1,matched")
        bulk("grid", key, "--format", "parquet", "--to", str(scene.folder / "found.parquet"))
        assert pq.read_table(Path(scene.folder / "found.parquet")).num_rows == 2
        assert "0 rows would be" in bulk("reprocess", key, "--dry-run")
