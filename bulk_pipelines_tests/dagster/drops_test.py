"""Files dropped at real servers while a whole installation runs: Dagster's own daemon takes and imports them."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulk_pipelines_tests.scenes import drops, installation
from bulk_pipelines_tests.scenes.drops import Box, box_of, folder_box
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import LoginServer, S3Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PATIENCE = 240.0
SMALL_FILES = 2_000

TICKS = """query($name: String!) { sensorOrError(sensorSelector: {
    sensorName: $name, repositoryName: "__repository__", repositoryLocationName: "bulk_pipelines"
}) { ... on Sensor { sensorState {
    ticks(limit: 200) { status skipReason cursor error { message } } } } } }"""

SLOW_WRITER = """
import pathlib, sys, time
with pathlib.Path(sys.argv[1]).open("w") as file:
    file.write("id,email,name,role,active\\n")
    for number in range(100):
        file.write(f"{number:08x}-0000-4000-8000-{number:012x},slow{number}@slow.example.org,Slow,reader,true\\n")
        file.flush()
        time.sleep(0.1)
"""


class Scene:
    """A running installation with four sources."""

    def __init__(self, place: Installation, boxes: dict[str, Box]) -> None:
        self.place = place
        self.boxes = boxes

    def users_of(self, domain: str) -> int:
        rows = self.place.rows("SELECT count(*) FROM users WHERE email LIKE %s", f"%@{domain}.example.org")
        return int(rows[0][0])

    def files(self, box: Box, pattern: str = "%") -> dict[str, str]:
        """The state of each file in the ledger."""
        query = "SELECT path, status FROM file_drop WHERE source = %s AND path LIKE %s ORDER BY drop_id"
        return dict(self.place.rows(query, box.name, pattern))

    def is_done(self, box: Box, pattern: str, count: int) -> bool:
        states = list(self.files(box, pattern).values())
        assert "FAILED" not in states, self.place.rows("SELECT path, note FROM file_drop WHERE status = 'FAILED'")
        return states.count("DONE") == count

    def said(self, sensor: str) -> str:
        """What its ticks said."""
        ticks = self.place.ask(TICKS, name=sensor)["sensorOrError"]["sensorState"]["ticks"]
        assert [tick["error"] for tick in ticks if tick["status"] == "FAILURE"] == []
        return "\n".join(tick["skipReason"] or "" for tick in ticks)

    def last_news(self, sensor: str) -> str:
        """What the sensor's page shows of its last tick that took something."""
        ticks = self.place.ask(TICKS, name=sensor)["sensorOrError"]["sensorState"]["ticks"]
        return str(ticks[0]["cursor"])


@pytest.fixture(scope="module")
def scene(
    s3_server: S3Server, ftp_server: LoginServer, sftp_server: LoginServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("drops")
    boxes = [
        folder_box(folder / "inbox"),
        box_of("s3", s3_server.bucket()),
        box_of("ftp", ftp_server.place()),
        box_of("sftp", sftp_server.place()),
    ]
    file = drops.write_drops_file(folder / "drops.toml", boxes, after="move", failed_folder="failed")
    variables = drops.settings_of(s3_server, ftp_server, sftp_server)
    with installation.running(BULK_DROPS_FILE=str(file), **variables) as place:
        yield Scene(place, {box.name: box for box in boxes})


@pytest.mark.parametrize(
    ("name", "sensor"), [("folder", "folder_drops"), ("s3", "s3_drops"), ("ftp", "ftp_drops"), ("sftp", "ftp_drops")]
)
def test_files_that_need_each_other_are_imported_in_their_order(scene: Scene, name: str, sensor: str) -> None:
    box = scene.boxes[name]
    box.drop(f"comments-{name}.json", drops.comments(name, 40, on=20, by=10, bad=1))
    box.drop(f"articles-{name}.ndjson", drops.articles(name, 20, authors=10))
    box.drop(f"users-{name}.csv", drops.users(name, 12, bad=2))
    until(lambda: scene.is_done(box, f"%-{name}.%", 3), "all three files are imported and put away", PATIENCE)
    assert scene.users_of(name) == 10
    slug = f"{name}-article-%"
    assert scene.place.rows("SELECT count(*) FROM articles WHERE slug LIKE %s", slug) == [(20,)]
    query = "SELECT count(*) FROM comments JOIN articles ON articles.id = article_id WHERE slug LIKE %s"
    assert scene.place.rows(query, slug) == [(39,)]
    # One run each, and none began before what it needs was over.
    jobs = scene.place.rows(
        "SELECT job.kind, job.dispatch_count, started_at, finished_at,"
        " (SELECT count(*) FROM dagster.run_tags WHERE key = 'dagster/partition' AND value = job.job_key)"
        " FROM job JOIN file_drop USING (job_id) WHERE source = %s AND path LIKE %s ORDER BY started_at",
        name,
        f"%-{name}.%",
    )
    assert [(kind, count, runs) for kind, count, _, _, runs in jobs] == [
        (f"import_{resource}", 0, 1) for resource in drops.RESOURCES
    ]
    assert jobs[0][3] <= jobs[1][2]
    assert jobs[1][3] <= jobs[2][2]
    assert [each.split("/")[::2] for each in box.names() if f"-{name}." in each] == [
        ["done", file.split("/")[-1]] for file in sorted(box.names()) if f"-{name}." in file
    ]
    until(lambda: f"{name}: 3 files seen, 3 taken, as " in scene.said(sensor), "a tick has told of it")
    until(lambda: f"{name}: 3 files seen, 3 taken, as " in scene.last_news(sensor), "the last tick still tells of it")


def test_a_new_version_is_imported_and_the_same_bytes_again_are_not(scene: Scene) -> None:
    box = scene.boxes["s3"]
    name = "users-again.csv"

    def states() -> list[str]:
        query = "SELECT status::text FROM file_drop WHERE path = %s ORDER BY drop_id"
        return [row[0] for row in scene.place.rows(query, name)]

    box.drop(name, drops.users("first", 5))
    until(lambda: states() == ["DONE"], "the first version is imported", PATIENCE)
    box.drop(name, drops.users("second", 5))
    until(lambda: states() == ["DONE", "DONE"], "the second version is imported", PATIENCE)
    assert (scene.users_of("first"), scene.users_of("second")) == (5, 5)
    jobs = scene.place.rows("SELECT count(*) FROM job")
    box.drop(name, drops.users("second", 5))
    box.drop("users-after.csv", drops.users("after", 1))
    until(lambda: scene.is_done(box, "users-after%", 1), "a file that came later is imported", PATIENCE)
    assert states() == ["DONE", "DONE"]
    assert scene.place.rows("SELECT count(*) - 1 FROM job") == jobs


def test_the_same_bytes_with_another_time_are_recognised_when_they_are_landed(scene: Scene) -> None:
    box = scene.boxes["folder"]
    content = drops.users("same", 4)

    def states() -> list[str]:
        query = "SELECT status::text FROM file_drop WHERE path = %s ORDER BY drop_id"
        return [row[0] for row in scene.place.rows(query, "users-same.csv")]

    box.drop("users-same.csv", content)
    until(lambda: states() == ["DONE"], "it is imported", PATIENCE)
    box.drop("users-same.csv", content)
    until(lambda: states() == ["DONE", "DUPLICATE"], "it is recognised", PATIENCE)
    updated = "SELECT count(*) FROM users WHERE email LIKE '%%@same.example.org' AND created_at = updated_at"
    assert scene.place.rows(updated) == [(4,)]


def test_a_slow_writer_is_waited_for(scene: Scene) -> None:
    box = scene.boxes["folder"]
    path = Path(box.url) / "users-slow.csv"
    with subprocess.Popen([sys.executable, "-c", SLOW_WRITER, str(path)]) as writer:
        while writer.poll() is None:
            assert scene.files(box, "users-slow.csv") in ({}, {"users-slow.csv": "WATCHED"})
            time.sleep(0.2)
    until(lambda: scene.is_done(box, "users-slow.csv", 1), "the file is imported", PATIENCE)
    assert scene.users_of("slow") == 100
    assert "not complete yet" in scene.said("folder_drops")


def test_a_job_that_the_command_line_works_is_left_alone_by_the_relay(scene: Scene, tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(drops.users(f"cli{number}", 3))
        done = scene.place.bulk("import", str(path), "--resource", "users")
        assert done.returncode == 0, done.stderr
    runs = (
        "SELECT job_key, (SELECT count(*) FROM dagster.run_tags WHERE key = 'dagster/partition' AND value = job_key)"
        " FROM job WHERE origin = 'cli'"
    )
    assert [count for _, count in scene.place.rows(runs)] == [1, 1, 1]


def test_two_thousand_small_files_are_few_runs(scene: Scene, tmp_path: Path) -> None:
    """The files appear while the sensor looks, so that a part of them may be taken before the others."""
    box = scene.boxes["folder"]
    for number in range(SMALL_FILES):
        (tmp_path / f"users-many-{number}.csv").write_bytes(drops.users(f"m{number}.many", 100))
    for path in tmp_path.iterdir():
        path.rename(Path(box.url) / path.name)
    until(lambda: scene.is_done(box, "users-many-%", SMALL_FILES), "all files are imported and put away", PATIENCE)
    count = "SELECT count(*) FROM users WHERE email LIKE '%%.many.example.org'"
    assert scene.place.rows(count) == [(SMALL_FILES * 100,)]
    runs = (
        "SELECT count(DISTINCT run_id) FROM dagster.run_tags AS tag JOIN job ON job.job_key = tag.value"
        " JOIN file_drop USING (job_id) WHERE tag.key = 'dagster/partition' AND path LIKE 'users-many-%%'"
    )
    assert scene.place.rows(runs)[0][0] <= 8
