"""Where pictures come from: archives, addresses, cells, folders, web servers and Commons."""

import base64
import json
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing import retention
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import pictures
from bulk_pipelines_tests.scenes.image_jobs import RECIPE, by_file, filled, zipped
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said
from bulk_pipelines_tests.servers.wikimedia_server import Wikimedia


def test_addresses_cells_and_names_in_a_folder(scene: Scene, folder: Path, tmp_path: Path) -> None:
    data = pictures.telling()
    filled(folder, {"here.jpg": data})
    (tmp_path / "outside.jpg").write_bytes(data)
    (folder / "link.jpg").symlink_to(tmp_path / "outside.jpg")
    answers: dict[str, Any] = {"/a.jpg": Said(data, 200, {"Content-Type": "image/jpeg"})}
    with ProviderServer(lambda call: answers.get(call.path, Said({}, 404))) as server:
        scene.monkeypatch.setenv("BULK_ALLOW_PRIVATE_HTTP", "true")
        scene.declare(RECIPE.format(recipe=f'image = "{{picture}}"\nfolder = "{folder}"'))
        cells = [
            (f"{server.url}a.jpg", "matched"),
            (f"{server.url}missing.jpg", "no match"),
            ("here.jpg", "matched"),
            ("missing.jpg", "no match"),
            ("link.jpg", "failed"),
            ("../outside.jpg", "failed"),
            (str(tmp_path / "outside.jpg"), "failed"),
            (f"file://{folder}/here.jpg", "failed"),
            ("data:image/jpeg;base64," + base64.b64encode(data).decode(), "matched"),
            ("\\x" + data.hex(), "matched"),
            ("data:image/jpeg;base64,????", "failed"),
            ("https://upload.wikimedia.org/a.jpg", "failed"),
            ("", "skipped"),
        ]
        rows = "".join(json.dumps({"file": "", "picture": each}) + "\n" for each, _ in cells)
        job = scene.done("pictures", source=scene.file(rows, "rows.ndjson"))
    grid = scene.grid(job)
    assert [row["Outcome"] for row in grid] == [outcome for _, outcome in cells], [row["Why"] for row in grid]
    assert "no such" not in grid[6]["Why"]
    with_none = RECIPE.format(recipe='image = "{picture}"')
    scene.declare(with_none)
    job = scene.done("pictures", source=scene.file(json.dumps({"file": "", "picture": "etc/hostname"}), "one.ndjson"))
    assert "names no folder" in scene.grid(job)[0]["Why"]


def test_web_servers_are_called_one_after_the_other_by_all_workers(scene: Scene) -> None:
    """The delay is one of a web server, whoever calls it; what it says of its limits is heeded by everybody."""
    data, busy = pictures.telling(), [False]

    def answer(_: Any) -> Any:
        return Said(b"", 429, {"Retry-After": "50"}) if busy[0] else Said(data, 200, {"Content-Type": "image/jpeg"})

    def work() -> None:
        with Worker(scene.pool, KINDS, scene.job(job.job_key)) as worker:
            drain.drain(worker, patient=False)

    scene.monkeypatch.setenv("BULK_ALLOW_PRIVATE_HTTP", "true")
    scene.declare(RECIPE.format(recipe='image = "{picture}"\ndelay = 0.2\nthumbnail = 0'))
    with ProviderServer(answer) as server, ProviderServer(lambda _: Said(data, 200)) as other:
        rows = [f"{server.url}{number}.jpg" for number in range(12)] + [
            other.url.replace("127.0.0.1", "localhost") + "a.jpg"
        ]
        source = scene.file("".join(json.dumps({"file": "", "picture": each}) + "\n" for each in rows), "rows.ndjson")
        job = scene.planned("pictures", source=source)
        workers = [threading.Thread(target=work) for _ in range(2)]
        for each in workers:
            each.start()
        for each in workers:
            each.join(120)
        assert scene.job(job.job_key).succeeded_items == len(rows)
        moments = sorted(call.moment for call in server.calls)
        # Between two calls a busy machine may hold up the first of them: only all of them together cannot be too quick.
        assert moments[-1] - moments[0] > 0.2 * (len(rows) - 2) - 0.1
        assert server.most_at_once <= 4
        busy[0] = True
        job = scene.planned("pictures", source=source)
        before = len(server.calls)
        work()
        assert len(server.calls) - before <= 4, "nobody calls it any more"
        assert {row.error_class for row in scene.rows(job)[:12]} == {"throttled"}
        assert scene.rows(job)[12].status == "SUCCEEDED", "another web server is another limit"
        busy[0] = False
        assert scene.worked(job).succeeded_items == len(rows)
    assert retention.prune_hosts(scene.pool, current(), dry_run=False) == 0
    with transaction(scene.pool) as connection:
        connection.execute("UPDATE rate_limit SET last_begun = last_begun - 90000")
    assert retention.prune_hosts(scene.pool, current(), dry_run=True) == 2
    assert retention.prune_hosts(scene.pool, current(), dry_run=False) == 2


def test_an_address_in_a_private_network_is_not_called(scene: Scene) -> None:
    with ProviderServer(lambda _: Said(b"", 200)) as server:
        scene.declare(RECIPE.format(recipe='image = "{picture}"'))
        rows = json.dumps({"file": "", "picture": f"{server.url}a.jpg"})
        job = scene.done("pictures", source=scene.file(rows, "rows.ndjson"))
        assert not server.calls
    assert scene.grid(job)[0]["Outcome"] == "failed"


@pytest.mark.parametrize("broken", ["cut", "other", "empty", "long list"])
def test_an_archive_that_is_none_fails_the_job_and_says_why(scene: Scene, tmp_path: Path, broken: str) -> None:
    scene.declare(RECIPE.format(recipe=""))
    path = Path(zipped(tmp_path / "x.zip", {"a.jpg": pictures.telling()}))
    data = path.read_bytes()
    long = data[:-22] + data[-22:-10] + (100 << 20).to_bytes(4, "little") + data[-6:]
    made = {"cut": data[: len(data) // 2], "other": b"hello", "empty": b"PK\x05\x06" + bytes(18), "long list": long}
    path.write_bytes(made[broken])
    with pytest.raises(InvalidInput, match="list of files" if broken == "long list" else "zip archive|no files"):
        scene.planned("pictures", source=str(path))


def test_files_of_an_archive_that_are_damaged_cost_their_own_rows(scene: Scene, tmp_path: Path) -> None:
    path = Path(zipped(tmp_path / "x.zip", {"a.jpg": pictures.telling(), "b.jpg": pictures.telling()}))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.jpg", b"\0" * (80 << 20))
        archive.writestr("../../etc/passwd.jpg", pictures.telling())
    data = bytearray(path.read_bytes())
    data[60:90] = b"\0" * 30  # in the packed bytes of the first file
    path.write_bytes(bytes(data))
    scene.declare(RECIPE.format(recipe="most_mib = 64"))
    rows = by_file(scene, scene.done("pictures", source=str(path)))
    assert {name: row["Outcome"] for name, row in rows.items()} == {
        "a.jpg": "failed",
        "b.jpg": "matched",
        "zeros.jpg": "failed",
        "../../etc/passwd.jpg": "matched",
    }
    assert "unpacks to more" in rows["zeros.jpg"]["Why"]


def test_titles_of_commons(scene: Scene) -> None:
    file = {
        "url": "https://upload.wikimedia.org/x.jpg",
        "width": 640,
        "height": 480,
        "size": 1_000,
        "mime": "image/jpeg",
        "extmetadata": {
            "LicenseShortName": {"value": "CC BY 4.0"},
            "Artist": {"value": "<a href='x'>Ann &amp; Bo</a>"},
        },
    }
    wiki = Wikimedia([], files={f"File:Photo {number}.jpg": file for number in range(60)})
    commons = '[provider.commons]\naddress = "{url}w/"\ncontact = "a@b.org"\nprivate = true\nmaxlag = 5\n'
    with wiki.server() as server:
        recipe = 'image = "{picture}"\ntitle = "{file}"'
        scene.declare(commons.format(url=server.url) + RECIPE.format(recipe=recipe))
        names = [f"File:Photo_{number}.jpg" for number in range(60)] + ["Nobody.jpg"]
        rows = "".join(json.dumps({"file": each}) + "\n" for each in names)
        job = scene.done("pictures", source=scene.file(rows, "rows.ndjson"))
        assert len(server.calls) <= 6, "fifty by one request"
    grid = scene.grid(job)
    assert {(row["Outcome"], row["Licence"], row["Author"], row["Width"]) for row in grid[:-1]} == {
        ("matched", "CC BY 4.0", "Ann & Bo", "640")
    }
    assert grid[-1]["Outcome"] == "no match"
    scene.declare(
        commons.format(url="https://commons.wikimedia.org/").replace("a@b.org", "") + RECIPE.format(recipe=recipe)
    )
    with pytest.raises(InvalidInput, match="BULK_CONTACT"):
        library.load(current()).to_run("pictures")
