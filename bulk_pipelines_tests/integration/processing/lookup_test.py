"""Rows looked up at a real web service: every outcome with its evidence, and what retries do."""

from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.telemetry import events
from bulk_pipelines_tests.scenes.processing import Scene, by_word, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer


def test_every_outcome_is_kept_apart_with_its_evidence(scene: Scene) -> None:
    with ProviderServer(by_word) as server:
        scene.shop(server.url, "break_after = 0", "attempts = 2\nnot_found_attempts = 1")
        titles = ["lamp", "twins", "weak", "noise", "gone", "wrong", "html", "down", "nothing"]
        job = scene.done(source=scene.file("title,brand\n" + "".join(f"{t},Acme\n" for t in titles) + ",\n"))
    found = {row["Title"]: row for row in scene.grid(job)}
    assert {title: row["Outcome"] for title, row in found.items()} == {
        "lamp": "matched",
        "twins": "ambiguous",
        "weak": "ambiguous",
        "noise": "no match",
        "gone": "no match",
        "wrong": "failed",
        "html": "failed",
        "down": "failed",
        "nothing": "no match",
        "": "skipped",
    }
    assert (found["lamp"]["Price"], found["lamp"]["Shop's id"]) == ("9.90", "lamp-1")
    assert found["twins"]["Price"] == "", "nothing of a candidate is shown as if it were sure"
    assert "0.5" in found["weak"]["Why"]
    assert "500" in found["down"]["Why"]
    by_title = {row.input["title"]: row for row in scene.rows(job)}
    evidence = by_title["lamp"].result["evidence"]  # type: ignore[index]
    assert (evidence["variant"], evidence["provider"], evidence["score"]) == ("title and brand", "shop", 0.97)
    assert evidence["lead"] == pytest.approx(0.47)
    assert by_title["down"].status == "DLQ"
    assert by_title["gone"].status == "NOT_FOUND"
    assert by_title[""].status == "SKIPPED"
    assert job.status is JobState.FAILED
    assert job.last_error is not None
    assert "3 of 10 rows failed" in job.last_error
    assert [each["id"] for each in by_title["twins"].result["evidence"]["candidates"]] == ["a", "b"]  # type: ignore[index]


def test_the_settings_say_how_often_a_row_is_tried_when_the_recipe_does_not(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_MAX_ATTEMPTS_ERROR", "2")
    monkeypatch.setenv("BULK_MAX_ATTEMPTS_NOT_FOUND", "3")
    with ProviderServer(by_word) as server:
        scene.shop(server.url, "break_after = 0\nkeep_nothing_days = 0")
        job = scene.done(source=scene.products("down", "gone"))
    failed, missed = scene.rows(job)
    assert (failed.status, failed.attempt_count) == ("DLQ", 2)
    assert (missed.status, missed.not_found_count) == ("NOT_FOUND", 3)


def test_the_envelope_goes_with_the_row_and_to_the_provider(scene: Scene) -> None:
    with ProviderServer(by_word) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products("lamp"))
    (row,) = scene.rows(job)
    assert row.result is not None
    envelope = row.result["envelope"]
    assert envelope["header"]["job_id"] == job.job_key
    assert envelope["header"]["type"] == "entity.lookup"
    assert envelope["body"] == {"project_id": job.job_id, "task_id": row.item_id, "dataset_entry_id": row.item_key}
    told = {name.lower(): value for name, value in server.calls[0].headers.items()}
    assert told["traceparent"].split("-")[1:3] == [envelope["tracing"][name] for name in ("trace_id", "span_id")]
    assert told["user-agent"] == "bulk-pipelines (tests@example.org)"


@pytest.mark.parametrize("together", [False, True])
def test_the_envelope_goes_with_the_row_into_the_log(
    scene: Scene, caplog: pytest.LogCaptureFixture, together: bool
) -> None:
    """Whether rows are looked up one by one or together, a line tells of each, with all by which it is known."""
    caplog.set_level("DEBUG", "bulk_pipelines.details")
    with ProviderServer(by_word) as server:
        scene.shop(server.url)
        if together:
            register = scene.file("id,name\n1,lamp\n", "register.csv")
            scene.declare(
                '[recipe.products]\ntype = "match"\nvariants = [{ name = "title", query = "{title}" }]\n'
                f'reference = {{ file = "{register}", id = "id", names = ["name"] }}\n'
            )
        job = scene.done(source=scene.products("lamp", "nothing"))
    told = [vars(each)[events.FIELDS] for each in caplog.records if vars(each).get(events.NAME) == "item looked up"]
    rows = scene.rows(job)
    kept = [row.result["envelope"] for row in rows if row.result]
    assert [each for each in kept if each not in [line["envelope"] for line in told]] == []
    assert {line["outcome"] for line in told} == {"matched", "no match"}
    assert all(line["envelope"]["body"].keys() == {"project_id", "task_id", "dataset_entry_id"} for line in told)
    assert "Acme" not in str([line["envelope"] for line in told]), "references, and no data"


def test_equal_rows_ask_once_and_say_so(scene: Scene) -> None:
    with ProviderServer(by_word, seconds=0.05) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products(*["lamp"] * 40))
        assert len(server.calls) == 1
    kept = [row.result["evidence"]["cached"] for row in scene.rows(job) if row.result]
    assert sorted(kept) == [False, *[True] * 39]


def test_nothing_found_is_kept_too_and_grows_old(scene: Scene) -> None:
    with ProviderServer(by_word) as server:
        scene.shop(server.url, "keep_nothing_days = 1", "not_found_attempts = 1")
        scene.done(source=scene.products("nothing"))
        asked = len(server.calls)
        assert asked == 2, "both variants"
        scene.done(source=scene.products("nothing"))
        assert len(server.calls) == asked
        with scene.pool.connect() as connection:
            connection.exec_driver_sql("UPDATE provider_answer SET answered_at = answered_at - interval '2 days'")
            connection.commit()
        scene.done(source=scene.products("nothing"))
        assert len(server.calls) == 2 * asked


def test_an_answer_serves_only_who_would_have_asked_and_read_the_same(scene: Scene) -> None:
    """A recipe with a slip finds nothing in a good answer: that is not what the mended recipe is told. Nor does it get
    the answers that another address gave, or that were given to other headers."""

    def found() -> tuple[str, str]:
        row = scene.grid(scene.done(source=scene.products("lamp")))[0]
        return row["Outcome"], row["Price"]

    def dearer(_: Call) -> Any:
        return items(("lamp-1", 0.97, "12.50"))

    with ProviderServer(by_word) as server, ProviderServer(dearer) as other:
        scene.shop(server.url, recipe="not_found_attempts = 1")
        declared = (scene.recipes / "shop.toml").read_text()
        scene.declare(declared.replace("$.items[*]", "$.itmes[*]"))
        assert found() == ("no match", "")
        scene.declare(declared)
        assert found() == ("matched", "9.90")
        asked = len(server.calls)
        assert found() == ("matched", "9.90")
        assert len(server.calls) == asked, "the same recipe is served"
        scene.shop(server.url, 'headers = { Accept-Language = "fr" }', "not_found_attempts = 1")
        assert found() == ("matched", "9.90")
        assert len(server.calls) == asked + 1
        scene.shop(other.url, recipe="not_found_attempts = 1")
        assert found() == ("matched", "12.50")


def test_the_next_variant_is_tried_when_the_first_finds_nothing(scene: Scene) -> None:
    def only_plain(call: Call) -> Any:
        return items(("x", 0.9, "1")) if call.params["q"] == "lamp" else {"items": []}

    with ProviderServer(only_plain) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products("lamp"))
    assert scene.grid(job)[0]["Variant"] == "title"


def test_retries_begin_with_another_variant(scene: Scene) -> None:
    """The attempts go through the variants, one a try, and the row says which one found it."""

    def only_plain(call: Call) -> Any:
        return items(("x", 0.9, "1")) if call.params["q"] == "lamp" else {"items": []}

    with ProviderServer(only_plain) as server:
        scene.shop(server.url, recipe="per_try = 1\nnot_found_attempts = 2")
        job = scene.done(source=scene.products("lamp"))
        assert [call.params["q"] for call in server.calls] == ["lamp Acme", "lamp"]
    assert scene.grid(job)[0]["Variant"] == "title"
    (row,) = scene.rows(job)
    assert (row.attempt_count, row.not_found_count) == (2, 1)


def test_a_score_beyond_all_bounds_is_the_best_or_the_worst(scene: Scene) -> None:
    with ProviderServer(lambda _: items(("most", 10**400, "1"), ("least", -(10**400), "2"))) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products("lamp"))
    assert [row["Shop's id"] for row in scene.grid(job)] == ["most"]


def test_no_value_of_a_row_leads_to_another_path(scene: Scene) -> None:
    """Quotes do not help against dots: a client and every server fold `a/../b`."""
    with ProviderServer(lambda _: items(("x", 0.9, "1"))) as server:
        scene.shop(server.url, recipe="attempts = 1")
        declared = (scene.recipes / "shop.toml").read_text()
        scene.declare(declared.replace('path = "search"', 'path = "items/{title}{brand}/about"'))
        text = (scene.recipes / "shop.toml").read_text()
        scene.declare(text.replace("{title}{brand}/", "{title}/{brand}/"))
        job = scene.done(source=scene.file("title,brand\n..,a\n.,a\na,..\n../..,a\n...,a.b\n"))
        assert sorted(call.path for call in server.calls) == ["/items/..%2F../a/about", "/items/.../a.b/about"]
        assert [row["Outcome"] for row in scene.grid(job)] == ["failed", "failed", "failed", "matched", "matched"]
        scene.declare(text)
        job = scene.done(source=scene.file("title,brand\n.,.\n"))
        assert [row["Outcome"] for row in scene.grid(job)] == ["failed"], "two values make one segment"
        scene.declare(text.replace("items/{title}{brand}/about", "x/../search"))
        assert scene.outcomes(scene.done(source=scene.products("lamp"))) == ["matched"], "the recipe may say so itself"


def test_a_provider_is_asked_in_the_trace_of_the_request(scene: Scene) -> None:
    """Several rows at once: their threads know the trace as well."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    with ProviderServer(lambda call: items((call.params["q"], 0.9, "1"))) as server:
        scene.shop(server.url, "at_once = 4", "at_once = 4")
        job = scene.planned(source=scene.products("lamp", "chair", "table"))
        with transaction(scene.pool) as connection:
            connection.execute("UPDATE job SET trace_parent = %s", [f"00-{trace_id}-b7ad6b7169203331-01"])
        scene.worked(job)
        parents = [call.headers["traceparent"].split("-") for call in server.calls]
    assert {each[1] for each in parents} == {trace_id}
    assert len({each[2] for each in parents}) == len(parents) >= 3
