"""Killed anywhere, a job goes on: each row is an item once, with one result. What was answered is not asked again."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.chaos.deadly import ENDED, SETTLED, SETTLING, run_until
from bulk_pipelines_tests.scenes import engine_jobs, pictures
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.database_proxy import Moment, Point
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia

ROWS = 1_500
OF_ROWS = {
    "landed": Point("INSERT INTO processing_source", Moment.BEFORE),
    "copied, not committed": Point("SET total_items = total_items + $", Moment.DONE, 2),
    "all persisted": Point("SET planned_at = coalesce(planned_at", Moment.BEFORE),
    "sealed, not committed": Point("SET planned_at = coalesce(planned_at", Moment.DONE),
    "sealed": Point("SET planned_at = coalesce(planned_at", Moment.COMMITTED),
    "asking": Point("INSERT INTO provider_answer", Moment.DONE, 2),
    "answered": Point("UPDATE provider_answer AS kept", Moment.BEFORE, 2),
    "kept": Point("UPDATE provider_answer AS kept", Moment.DONE, 2),
    "settled": SETTLED,
    "ended": ENDED,
}
OF_TIERS = {name: replace(OF_ROWS[name], number=3) for name in ("asking", "answered", "kept")} | {"settled": SETTLED}
OF_PICTURES = {
    "files added": Point("FROM added)", Moment.DONE),
    "doubles found": Point("{evidence,double_of}", Moment.DONE),
    "settled": SETTLED,
}
OF_MATCHES = {
    "claim prepared": Point(") AS entry WHERE ", Moment.BEFORE, 2),
    "rows worked": replace(SETTLING, number=2),
    "settled": replace(SETTLED, number=3),
}
"""Where a process can die: among rows that are looked up one by one, or by tiers, among pictures, and among matches."""


def answer(call: Call) -> Any:
    return items((call.params["q"].split()[0], 0.9, "1"))


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)


def start(url: str, job: Job, *renames: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bulk_pipelines_tests.chaos.processing.worker", job.job_key, *renames]
    return subprocess.Popen(command, env=settings.environment(BULK_DATABASE_URL=url), cwd=CHECKOUT)


def check_killed(url: str, job: Job, point: Point) -> None:
    """Work the job in a process that is killed at a point."""
    assert run_until(url, point, lambda through: start(through, job)) == -signal.SIGKILL


WIKI = """
[provider.wikidata]
address = "{address}w/"
contact = "tests@example.org"
private = true
at_once = 3

[provider.wikidata-query]
address = "{address}"
contact = "tests@example.org"
private = true
at_once = 3

[recipe.products]
type = "wikidata"
not_found_attempts = 1
variants = [{{ name = "exact", query = "{{title}}" }}]
columns = [{{ header = "Title", input = "title" }}, {{ header = "Id", evidence = "id" }}]
"""


@pytest.mark.long
@pytest.mark.parametrize("point", OF_TIERS)
def test_killed_among_the_tiers(scene: Scene, database_url: str, point: str) -> None:
    """Rows of one claim share their requests; what was answered and kept before the kill is not asked again."""
    items = [Item(f"Q{number + 1}", f"Thing {chr(97 + number % 26)}{number} Company") for number in range(60)]
    wiki = Wikimedia(items)
    titles = [each.label if number % 2 else each.label.removesuffix(" Company") for number, each in enumerate(items)]
    with wiki.server(per_minute=10_000) as server:
        scene.declare(WIKI.format(address=server.url))
        whole = scene.worked(scene.planned(source=scene.products(*titles)))
        expected, requests = scene.grid(whole), len(server.calls)
        with transaction(scene.pool) as connection:
            connection.execute("DELETE FROM provider_answer")
        job = scene.submitted(source=scene.products(*titles))
        check_killed(database_url, job, OF_TIERS[point])
        let_leases_run_out(scene)
        engine_jobs.make_due(scene.pool, job)
        assert start(database_url, job).wait(240) == 0
        asked = [call.body for call in server.calls[requests:]]
    job = scene.job(job.job_key)
    assert job.status is JobState.COMPLETED, job.last_error
    engine_jobs.check_counters(scene.pool, job)
    assert scene.grid(job) == expected
    assert sum(row["Id"] != "" for row in expected) >= 30
    assert sum(b"SELECT" in each for each in asked) == sum(b"wbgetentities" in each for each in asked) == 1
    searches = sum(b"generator=search" in each for each in asked)
    # Rows whose worker died are worked one by one, so each searches alone what nobody had kept.
    assert searches == 2 if point == "settled" else searches <= 32


@pytest.mark.long
@pytest.mark.parametrize("point", [*OF_PICTURES, "thumbnail written"])
def test_killed_among_pictures(scene: Scene, database_url: str, point: str) -> None:
    """Each picture is a row once, its thumbnail is one file, and it is a double of the same one as without the kill."""
    folder = scene.folder / "pictures"
    folder.mkdir()
    for number in range(24):
        data = pictures.saved(pictures.drawn(seed=number // 2, width=300 + number % 2), quality=80 + number % 2)
        (folder / f"{number:02}.jpg").write_bytes(data)
    job = scene.submitted("image", source=str(folder))
    if point == "thumbnail written":
        assert start(database_url, job, "5").wait(120) == -signal.SIGKILL
    else:
        check_killed(database_url, job, OF_PICTURES[point])
    let_leases_run_out(scene)
    engine_jobs.make_due(scene.pool, job)
    assert start(database_url, job).wait(240) == 0
    job = scene.job(job.job_key)
    assert job.status is JobState.COMPLETED, job.last_error
    engine_jobs.check_counters(scene.pool, job)
    rows = scene.grid(job)
    assert [row["File"] for row in rows] == [f"{number:02}.jpg" for number in range(24)]
    doubles = [row["Near-double of"] for row in rows]
    assert doubles == [f"{number - 1:02}.jpg" if number % 2 else "" for number in range(24)]
    files = [each for each in (scene.folder / "home" / "thumbnails").rglob("*") if each.is_file()]
    assert len(files) == len({row["Thumbnail"] for row in rows}) == 24


MATCH = """
[recipe.products]
type = "match"
variants = [{{ name = "exact", query = "{{title}}" }}]
columns = [
    {{ header = "Title", input = "title" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "Name", answer = "name" }},
]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
"""
WRITTEN = """
CREATE TABLE written (item_id bigint);
CREATE FUNCTION note_result() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO written VALUES (new.item_id); RETURN new; END $$;
CREATE TRIGGER note_result AFTER UPDATE ON job_item FOR EACH ROW
WHEN (new.result IS NOT NULL AND new.result IS DISTINCT FROM old.result) EXECUTE FUNCTION note_result();
"""
"""Notes every result that is written, whichever process writes it."""


@pytest.mark.long
@pytest.mark.parametrize("point", OF_MATCHES)
def test_killed_while_matching(scene: Scene, database_url: str, point: str) -> None:
    """Rows are compared a claim at a time. Wherever a worker dies, each row has its result once, the right one."""
    names = [f"Company {chr(97 + number % 26)}{number} Works" for number in range(400)]
    register = scene.file("id,name\n" + "".join(f"{n},{name}\n" for n, name in enumerate(names)), "register.csv")
    scene.declare(MATCH.format(file=register))
    titles = [names[number % 400].lower() if number % 3 else f"nobody {number}" for number in range(3_000)]
    expected = scene.grid(scene.done(source=scene.products(*titles)))
    with transaction(scene.pool) as connection:
        connection.execute(WRITTEN)
    job = scene.submitted(source=scene.products(*titles))
    check_killed(database_url, job, OF_MATCHES[point])
    killed = scene.job(job.job_key)
    assert killed.open_items > 0, "it died in the middle"
    let_leases_run_out(scene)
    engine_jobs.make_due(scene.pool, job)
    assert start(database_url, job).wait(240) == 0
    job = scene.job(job.job_key)
    assert job.status is JobState.COMPLETED, job.last_error
    engine_jobs.check_counters(scene.pool, job)
    assert scene.grid(job) == expected
    with transaction(scene.pool) as connection:
        counts = connection.execute("SELECT count(*), count(DISTINCT item_id) FROM written").fetchone()
    assert counts == (len(titles), len(titles)), "each result was written once"


def let_leases_run_out(scene: Scene) -> None:
    """Let the leases of items, of questions and of the limit's uses run out, as time does, and rescue the items."""
    with transaction(scene.pool) as connection:
        connection.execute(engine_jobs.ALL_RUN_OUT)
        connection.execute("UPDATE provider_answer SET asking_until = now() - interval '1 second'")
        connection.execute("UPDATE rate_limit SET held_numbers = '{}', held_until = '{}'")
    rescue.run_once(scene.pool, KINDS, lambda: 0.0)


@pytest.mark.long
@pytest.mark.parametrize("point", OF_ROWS)
def test_killed_at_a_point(scene: Scene, database_url: str, point: str) -> None:
    titles = [f"t{number}" for number in range(ROWS if "persisted" in point or "copied" in point else 60)]
    with ProviderServer(answer) as server:
        scene.shop(server.url, "at_once = 8", "at_once = 8")
        job = scene.submitted(source=scene.products(*titles))
        check_killed(database_url, job, OF_ROWS[point])
        let_leases_run_out(scene)
        engine_jobs.make_due(scene.pool, job)
        assert start(database_url, job).wait(240) == 0
        asked = len(server.calls)
    job = scene.job(job.job_key)
    assert job.status is JobState.COMPLETED, job.last_error
    engine_jobs.check_counters(scene.pool, job)
    assert [row["title"] for row in scene.inputs(job)] == titles
    assert {row["Title"]: row["Shop's id"] for row in scene.grid(job)} == {title: title for title in titles}
    counted = sum((job.result or {})["requests"]["shop"].values())
    unkept = 8 if point in ("answered", "asking", "kept", "settled") else 0  # as many as are asked at once
    assert len(titles) <= asked <= len(titles) + unkept, "what was kept is not asked again"
    assert len(titles) - 8 <= counted <= asked, "a worker that died has not counted what it did not settle"
