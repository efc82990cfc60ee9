"""Reviewers decide about uncertain rows: the row shows it, equal rows and later jobs go by it, and it can be undone."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Actor, Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict, InvalidInput, NotFound
from bulk_pipelines.processing import control
from bulk_pipelines.processing.control import Chosen
from bulk_pipelines.processing.review import deciding, thresholds, uncertain
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer

ADA = Actor("ada", "cli")
TWO = items(("x1", 0.7, "1"), ("x2", 0.65, "2"))


def two(call: Call) -> Any:
    """Answer with two candidates of which neither is sure, and with nothing to queries that begin with none."""
    return {"items": []} if call.params["q"].startswith("none") else TWO


@pytest.fixture
def job(scene: Scene) -> Job:
    with ProviderServer(two) as server:
        scene.shop(server.url, recipe="not_found_attempts = 1")
        return scene.done(source=scene.file("title,brand\nlamp,Acme\nLAMP ,acme\ndesk,Acme\nnone,Acme\n"))


def waiting(scene: Scene, job: Job, **given: Any) -> list[str]:
    with transaction(scene.pool) as connection:
        return [each.item_key for each in uncertain.page(connection, job.job_key, **given)]


def decide(scene: Scene, job: Job, row: int, verdict: str, entry: str | None = None) -> deciding.Decided:
    return deciding.decide(scene.pool, job.job_key, f"{row:09}", verdict, entry, ADA)


def shown(scene: Scene, job: Job) -> list[tuple[str, str]]:
    return [(row["Outcome"], row["Price"]) for row in scene.grid(job)]


def test_uncertain_rows_come_a_page_at_a_time(scene: Scene, job: Job) -> None:
    assert waiting(scene, job) == ["000000001", "000000002", "000000003"]
    assert waiting(scene, job, size=2) == ["000000001", "000000002"]
    assert waiting(scene, job, size=2, after="000000002") == ["000000003"]
    assert waiting(scene, job, outcome="matched") == []
    with transaction(scene.pool) as connection:
        first = uncertain.page(connection, job.job_key)[0]
        assert [(each.id, each.answer["price"]) for each in first.candidates] == [("x1", "1"), ("x2", "2")]
        with pytest.raises(NotFound):
            uncertain.page(connection, job.job_key, owner="somebody else")
        with pytest.raises(InvalidInput):
            uncertain.page(connection, job.job_key, outcome="failed")


def test_a_decision_shows_at_once_holds_for_equal_rows_and_is_counted(scene: Scene, job: Job) -> None:
    told = decide(scene, job, 1, "accept", "x2")

    assert (told.outcome, told.changed) == ("matched", True)
    assert shown(scene, job) == [("matched", "2"), ("ambiguous", ""), ("ambiguous", ""), ("no match", "")]
    assert deciding.apply(scene.pool, job.job_key, ADA) == 1
    assert deciding.apply(scene.pool, job.job_key, ADA) == 0, "it may be repeated"
    assert shown(scene, job)[1] == ("matched", "2")
    assert waiting(scene, job) == ["000000003"]
    result = scene.job(job.job_key).result
    assert result is not None
    assert result["outcomes"] == {"matched": 2, "ambiguous": 1, "no match": 1}


def test_later_jobs_go_by_decisions_and_ask_nobody(scene: Scene, job: Job) -> None:
    decide(scene, job, 1, "accept", "x2")
    decide(scene, job, 3, "none")
    scene.shop("http://127.0.0.1:9/", "keep_days = 0")
    later = scene.done(source=scene.file("title,brand\nlamp,ACME\ndesk,Acme\n"))

    assert shown(scene, later) == [("matched", "2"), ("no match", "")]
    assert (later.succeeded_items, later.status) == (2, "COMPLETED")
    decide(scene, later, 1, "open")
    assert shown(scene, later)[0][0] == "ambiguous", "it was never looked up"
    assert waiting(scene, later) == ["000000001"]


def test_a_decision_takes_the_place_of_one_that_it_contradicts(scene: Scene, job: Job) -> None:
    for verdict, entry, outcome in (
        ("accept", "x1", "matched"),
        ("none", None, "no match"),
        ("reject", "x1", "no match"),
        ("accept", "x2", "matched"),
        ("reject", "x1", "matched"),
        ("reject", "x2", "no match"),
        ("open", None, "ambiguous"),
        ("accept", "x2", "matched"),
        ("reject", "x2", "ambiguous"),
        ("reject", "x1", "no match"),
        ("accept", "x1", "matched"),
        ("open", None, "ambiguous"),
    ):
        assert decide(scene, job, 1, verdict, entry).outcome == outcome, (verdict, entry)
    with transaction(scene.pool) as connection:
        assert connection.execute("SELECT count(*) FROM review_decision").fetchone() == (0,)
        (row, *_) = uncertain.page(connection, job.job_key)
    assert [each.id for each in row.candidates] == ["x1", "x2"], "no candidate is lost on the way"
    assert (row.decision, row.reason) == (None, "the best score 0.70 is below 0.8")


def test_the_same_decision_again_changes_nothing_and_each_is_audited_once(scene: Scene, job: Job) -> None:
    assert decide(scene, job, 1, "accept", "x1").changed
    before = scene.rows(job)[0]
    assert not decide(scene, job, 1, "accept", "x1").changed
    assert not decide(scene, job, 2, "accept", "x1").changed, "the row says the same"
    assert scene.rows(job)[0].updated_at == before.updated_at
    with transaction(scene.pool) as connection:
        noted = [each.details for each in audit.page(connection, Wanted(job.job_key, action="decide"))]
    assert noted == [{"row": "000000001", "verdict": "accept", "entry": "x1"}]


def test_a_rejected_candidate_never_matches_again(scene: Scene, job: Job) -> None:
    decide(scene, job, 1, "reject", "x1")
    with ProviderServer(lambda _: items(("x1", 0.99, "1"), ("x3", 0.85, "3"))) as server:
        scene.shop(server.url)
        later = scene.done(source=scene.products("lamp", "desk"))
    assert shown(scene, later) == [("matched", "3"), ("matched", "1")]


def test_what_was_not_found_is_tried_again_after_a_decision(scene: Scene, job: Job) -> None:
    assert decide(scene, job, 4, "none").outcome == "no match"
    assert deciding.apply(scene.pool, job.job_key, ADA) == 1
    job = scene.worked(job)
    assert (job.not_found_items, job.succeeded_items, job.status) == (0, 4, "COMPLETED")


def test_what_cannot_be_decided(scene: Scene, job: Job) -> None:
    for verdict, entry in (("accept", None), ("accept", "x9"), ("none", "x1"), ("maybe", "x1"), ("reject", "")):
        with pytest.raises(InvalidInput):
            decide(scene, job, 1, verdict, entry)
    with pytest.raises(NotFound):
        decide(scene, job, 99, "none")
    with pytest.raises(NotFound):
        deciding.decide(scene.pool, job.job_key, f"{1:09}", "none", None, Actor("eve", "api", admin=False))
    open_ = scene.planned(source=scene.products("chair"))
    with pytest.raises(Conflict):
        decide(scene, open_, 1, "none")


def test_reviewers_who_decide_at_once_lose_nothing(scene: Scene, job: Job) -> None:
    asked = [(row, entry) for row in (1, 2) for entry in ("x1", "x2")] * 3
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda each: decide(scene, job, each[0], "reject", each[1]), asked))
    with transaction(scene.pool) as connection:
        found = connection.execute("SELECT rejected FROM review_decision").fetchall()
    assert [sorted(rejected) for (rejected,) in found] == [["x1", "x2"]]


def test_decisions_propose_thresholds(scene: Scene) -> None:
    """The oracle: above 0.6 all best candidates are right, below all are wrong."""

    def answer(call: Call) -> Any:
        return items((f"x{call.params['q']}", int(call.params["q"].split()[0][1:]) / 100, "1"))

    with ProviderServer(answer) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products(*[f"t{number}" for number in range(40, 80)]))
    assert thresholds.propose(scene.pool, job.job_key).proposed is None, "nobody has decided anything"
    for row in range(1, 37, 2):
        score = 39 + row
        if score >= 60:
            entry = scene.rows(job)[row - 1].result
            assert entry is not None
            decide(scene, job, row, "accept", entry["evidence"]["candidates"][0]["id"])
        else:
            decide(scene, job, row, "none")
    found = thresholds.propose(scene.pool, job.job_key)

    assert found.decisions == 18
    assert found.present.matched == 0
    assert found.proposed is None, "eight decisions are too few"
    for row in (36, 38, 40):
        entry = scene.rows(job)[row - 1].result
        assert entry is not None
        decide(scene, job, row, "accept", entry["evidence"]["candidates"][0]["id"])
    found = thresholds.propose(scene.pool, job.job_key)
    assert found.proposed is not None
    assert (found.proposed.threshold, found.proposed.matched, found.proposed.precision) == (0.6, 11, 1.0)
    undecided = [score for score in range(60, 80) if (score - 39) not in {*range(1, 37, 2), 36, 38, 40}]
    assert (found.more, found.less) == (len(undecided), 0)


def test_the_command_line_does_the_same(scene: Scene, job: Job, database_url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)

    def bulk(*words: str) -> str:
        done = CliRunner().invoke(main, ["review", *words])
        assert done.exit_code == 0, done.output
        return done.output

    listed = [json.loads(line) for line in bulk("list", job.job_key, "--size", "2").splitlines()]
    assert [each["item_key"] for each in listed] == ["000000001", "000000002"]
    assert json.loads(bulk("decide", job.job_key, "000000001", "accept", "x2"))["outcome"] == "matched"
    assert bulk("apply", job.job_key) == "1 row changed\n"
    assert json.loads(bulk("thresholds", job.job_key))["decisions"] == 1
    refused = CliRunner().invoke(main, ["review", "decide", job.job_key, "000000003", "accept", "x9"])
    assert refused.exit_code == 1
    assert "no candidate of this row" in refused.output


def test_to_reprocess_a_job_makes_decisions_count_for_its_rest(scene: Scene, job: Job) -> None:
    decide(scene, job, 1, "accept", "x2")
    decide(scene, job, 4, "none")
    control.reprocess(scene.pool, job.job_key, Chosen.parse())
    job = scene.worked(job)
    assert shown(scene, job) == [("matched", "2"), ("matched", "2"), ("ambiguous", ""), ("no match", "")]
    assert (job.succeeded_items, job.not_found_items) == (4, 0)
