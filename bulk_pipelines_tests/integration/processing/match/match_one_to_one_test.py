"""Matching one to one: no entry of the reference is matched twice, whoever is worked first or last."""

from typing import Any

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.processing.match import one_to_one
from bulk_pipelines.processing.review import deciding
from bulk_pipelines_tests.scenes.matching import ADA, declare, ids
from bulk_pipelines_tests.scenes.processing import Scene


def test_no_entry_is_matched_twice_if_the_recipe_says_so(scene: Scene, table: str) -> None:
    rows = "company,trading_as,country\nBlue Bottle Coffee,,\nBlue Bottle Coffee Inc,,us\nNordic Timber,,\n"
    declare(scene, table)
    assert [each for each, _ in ids(scene, scene.done("companies", source=scene.file(rows)))] == ["1", "1", "4"]
    declare(scene, table, "one_to_one = true")
    job = scene.done("companies", source=scene.file(rows))

    assert ids(scene, job) == [("", "no match"), ("1", "matched"), ("4", "matched")]
    assert scene.grid(job)[0]["Why"].startswith("a surer row is matched with 1")
    assert job.result is not None
    assert job.result["outcomes"] == {"matched": 2, "no match": 1}
    deciding.decide(scene.pool, job.job_key, "000000001", "reject", "1", ADA)
    deciding.decide(scene.pool, job.job_key, "000000001", "open", None, ADA)
    assert ids(scene, job)[0] == ("", "no match"), "what was taken stays taken"
    told = deciding.decide(scene.pool, job.job_key, "000000001", "accept", "1", ADA)
    assert told.outcome == "matched", "a reviewer knows better"


def test_who_loses_an_entry_gets_the_next_best_that_is_free(scene: Scene) -> None:
    companies = "id,name,former,country,city\n1,Acme Lamps,,us,\n2,Acme Lamp,,us,\n"
    declare(scene, f'file = "{scene.file(companies, "c.csv")}"', "one_to_one = true\nthreshold = 0.2\nmargin = 0.0")
    rows = "company,trading_as,country\nAcme Lamps,,us\nAcme Lamps,,\n"
    job = scene.done("companies", source=scene.file(rows))

    assert ids(scene, job) == [("1", "matched"), ("2", "matched")]


def test_one_to_one_comes_to_the_same_wherever_it_was_cut_short(scene: Scene, monkeypatch: Any) -> None:
    """The oracle settles one claim after the other, each with the surest row that asks for its entry."""
    names = [f"{first} {second}" for first in ("Acme", "Nordic", "Blue") for second in ("Lamps", "Timber", "Coffee")]
    companies = "id,name,former,country,city\n" + "".join(f"{n},{name},,,\n" for n, name in enumerate(names))
    rows = "company,trading_as,country\n" + "".join(
        f"{name}{end},,\n" for name in names for end in ("", " Co", "s", " Shop")
    )
    declare(scene, f'file = "{scene.file(companies, "c.csv")}"', "one_to_one = true\nthreshold = 0.05\nmargin = 0.0")
    source = scene.file(rows)
    whole = scene.done("companies", source=source)
    job = scene.planned("companies", source=source)
    monkeypatch.setattr(one_to_one, "AT_A_TIME", 1)
    scene.worked(job)

    assert scene.grid(job) == scene.grid(whole)
    matched = [row["Id"] for row in scene.grid(job) if row["Id"]]
    assert len(matched) == len(set(matched)) == len(names)
    assert matched_by_hand(scene, job) == {row["Id"]: row["Company"] for row in scene.grid(job) if row["Id"]}


def matched_by_hand(scene: Scene, job: Job) -> dict[str, str]:
    """Return which row gets each entry: free rows ask for the best entry that has not refused them, until none asks."""
    wishes = {}
    for row in scene.rows(job):
        assert row.result is not None
        evidence = row.result["evidence"]
        wishes[row.item_key] = [(each["id"], each["score"]) for each in evidence["candidates"]]
    held: dict[str, tuple[float, str]] = {}
    asking = dict.fromkeys(wishes, 0.0)  # the share of what has refused the row
    while asking:
        key, gone = asking.popitem()
        if not wishes[key]:
            continue
        entry, first = wishes[key].pop(0)
        score = round(first / (1 - gone), 4) if gone else first
        if score < 0.05:
            continue
        rival = held.get(entry)
        if rival is None or (-score, key) < (-rival[0], rival[1]):
            held[entry] = (score, key)
            if rival is not None:
                lost = [each for each in first_wishes(scene, job, rival[1]) if each not in wishes[rival[1]]]
                asking[rival[1]] = sum(each[1] for each in lost)
        else:
            asking[key] = gone + first
    inputs = {row.item_key: row.input["company"] for row in scene.rows(job)}
    return {entry: inputs[key] for entry, (_, key) in held.items()}


def first_wishes(scene: Scene, job: Job, key: str) -> list[tuple[str, float]]:
    (row,) = [each for each in scene.rows(job) if each.item_key == key]
    assert row.result is not None
    return [(each["id"], each["score"]) for each in row.result["evidence"]["candidates"]]
