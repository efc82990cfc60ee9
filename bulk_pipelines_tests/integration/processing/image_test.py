"""Pictures as rows: what is seen of them, what is written of them, and what hostile ones cost."""

import base64
import io
import json
import os
import signal
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines.processing import retention, trial
from bulk_pipelines.processing.image.children import Children, Spec
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import pictures
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said
from bulk_pipelines_tests.servers.wikimedia_server import Wikimedia

RECIPE = """
[recipe.pictures]
type = "image"
attempts = 2
not_found_attempts = 1
{recipe}
columns = [
    {{ header = "File", input = "file" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Format", answer = "format" }},
    {{ header = "Width", answer = "width" }},
    {{ header = "Height", answer = "height" }},
    {{ header = "Mode", answer = "mode" }},
    {{ header = "Hash", answer = "phash" }},
    {{ header = "Tells", answer = "betrays" }},
    {{ header = "Wrong end", answer = "wrong_extension" }},
    {{ header = "Animated", answer = "animated" }},
    {{ header = "Double", answer = "double_of" }},
    {{ header = "Thumbnail", answer = "thumbnail" }},
    {{ header = "Licence", answer = "licence" }},
    {{ header = "Author", answer = "author" }},
    {{ header = "Why", evidence = "reason" }},
]
"""
SPEC = Spec(64, "JPEG", 50_000_000, 20.0)
MEMORY = 1 << 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    return tmp_path / "pictures"


def filled(folder: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return str(folder)


def zipped(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return str(path)


def by_file(scene: Scene, job: Any) -> dict[str, dict[str, str]]:
    return {row["File"]: row for row in scene.grid(job)}


@cache
def good() -> dict[str, bytes]:
    return {
        "photo.jpg": pictures.telling(),
        "sub/plain.png": pictures.saved(pictures.drawn(seed=2), "PNG"),
        "animated.gif": pictures.animated(),
        "cmyk.jpg": pictures.saved(pictures.drawn(seed=3, mode="CMYK")),
        "deep.png": pictures.saved(
            pictures.drawn(seed=4, mode="L").convert("I").point(lambda v: v * 257).convert("I;16"), "PNG"
        ),
        "clear.webp": pictures.saved(pictures.drawn(seed=5, mode="RGBA"), "WEBP"),
        "really a.png": pictures.saved(pictures.drawn(seed=6)),
        "small.avif": pictures.saved(pictures.drawn(seed=7), "AVIF"),
        "scan.tif": pictures.saved(pictures.drawn(seed=8, mode="1"), "TIFF"),
        "notes.txt": b"these are my holidays",
        ".DS_Store": b"\0\1",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_the_files_of_a_folder_and_of_an_archive(scene: Scene, folder: Path, tmp_path: Path, packed: bool) -> None:
    scene.declare(RECIPE.format(recipe=""))
    source = zipped(tmp_path / "all.ZIP", good()) if packed else filled(folder, good())
    job = scene.done("pictures", source=source)
    assert job.status == "COMPLETED", job.last_error
    rows = by_file(scene, job)
    assert set(rows) == set(good()) - {".DS_Store"}
    assert rows.pop("notes.txt")["Outcome"] == "skipped"
    assert {row["Outcome"] for row in rows.values()} == {"matched"}
    photo = rows["photo.jpg"]
    assert (photo["Width"], photo["Height"]) == ("240", "320"), "as it is to be looked at"
    assert photo["Tells"] == "exif; gps; icc; xmp; comment"
    assert rows["animated.gif"]["Animated"] == "true"
    assert rows["cmyk.jpg"]["Mode"] == "CMYK"
    assert rows["deep.png"]["Mode"] == "I;16"
    assert [name for name, row in rows.items() if row["Wrong end"] == "true"] == ["really a.png"]
    assert len({row["Hash"] for row in rows.values()}) == len(rows)
    for row in rows.values():
        data = Path(row["Thumbnail"].removeprefix("file://")).read_bytes()
        assert b"SECRET" not in data
        assert b"Exif" not in data
        assert b"ICC_PROFILE" not in data
        with Image.open(io.BytesIO(data)) as image:
            assert max(image.size) == 256
            assert (image.format, image.mode) == ("JPEG", "RGB")


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_nothing_of_the_metadata_is_in_thumbnails_of_other_formats(scene: Scene, folder: Path, kind: str) -> None:
    scene.declare(RECIPE.format(recipe=f'thumbnail_format = "{kind}"'))
    job = scene.done("pictures", source=filled(folder, {"a.jpg": pictures.telling(), "b.png": pictures.text_png()}))
    rows = by_file(scene, job)
    assert rows["b.png"]["Tells"] == "comment"
    for row in rows.values():
        data = Path(row["Thumbnail"].removeprefix("file://")).read_bytes()
        for sign in (b"SECRET", b"EXIF", b"eXIf", b"iCCP", b"ICCP", b"tEXt", b"XMP"):
            assert sign not in data


@cache
def hostile() -> dict[str, tuple[bytes, str]]:
    return {
        "bomb.png": (pictures.bomb(), "more than 100,000,000 pixels"),
        "cut.jpg": (pictures.saved(pictures.drawn(2_000, 1_500))[:20_000], "broken"),
        "cut.png": (pictures.saved(pictures.drawn(), "PNG")[:2_000], "broken"),
        "page.svg": (pictures.SVG, "no picture"),
        "page.jpg": (pictures.EPS, "no picture"),
        "empty.jpg": (b"", "no picture"),
        "noise.png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "no picture"),
        "text.png": (pictures.png(pictures.inflated(b"zTXt", 200_000_000)), "broken"),
        "profiles.png": (pictures.png(pictures.inflated(b"iCCP", 50_000_000)), "broken"),
        "old.psd": (b"8BPS\0\1" + b"\0" * 100, "no picture"),
    }


@cache
def harmless() -> dict[str, bytes]:
    return {
        "profile.png": pictures.png(pictures.inflated(b"iCCP", 500_000)),
        "exif.jpg": pictures.saved(pictures.drawn(seed=9))[:2]
        + b"".join(b"\xff\xe1\xff\xff" + b"Exif\0\0" + b"A" * 65_527 for _ in range(16))
        + pictures.saved(pictures.drawn(seed=9))[2:],
        "polyglot.jpg": pictures.saved(pictures.drawn(seed=10))
        + b"PK\x03\x04<script>alert('SECRET')</script><?php SECRET ?>",
        "one pixel.png": pictures.png(width=1, height=1),
        "line.png": pictures.png(width=1, height=9_000),
    }


def test_hostile_pictures_cost_their_own_rows(scene: Scene, folder: Path) -> None:
    scene.declare(RECIPE.format(recipe=""))
    files = {name: data for name, (data, _) in hostile().items()} | harmless() | {"photo.jpg": pictures.telling()}
    job = scene.done("pictures", source=filled(folder, files))
    rows = by_file(scene, job)
    assert job.status == "FAILED"
    for name, (_, why) in hostile().items():
        assert rows[name]["Outcome"] == "failed", name
        assert why in rows[name]["Why"], (name, rows[name]["Why"])
    for name in (*harmless(), "photo.jpg"):
        assert rows[name]["Outcome"] == "matched", (name, rows[name]["Why"])
    thumbnail = Path(rows["polyglot.jpg"]["Thumbnail"].removeprefix("file://")).read_bytes()
    assert b"SECRET" not in thumbnail
    assert b"PK" not in thumbnail[-40:]


def test_a_child_that_dies_hangs_or_fills_its_memory_is_replaced() -> None:
    seen = Children(1, MEMORY)
    try:
        assert seen.see(pictures.telling(), SPEC).found["format"] == "JPEG"
        first = seen.idle[0].process
        assert seen.see(pictures.telling(), SPEC).found["width"] == 240
        assert seen.idle[0].process is first, "a child is used again"
        os.kill(first.pid, signal.SIGSTOP)
        with pytest.raises(Transient, match="within 0.3 seconds"):
            seen.see(pictures.telling(), Spec(64, "JPEG", 50_000_000, 0.3))
        assert first.poll() is not None
        assert seen.see(pictures.telling(), SPEC).thumbnail[:2] == b"\xff\xd8"
        second = seen.idle[0].process
        os.kill(second.pid, signal.SIGKILL)
        second.wait()
        assert seen.see(pictures.telling(), SPEC).thumbnail, "a child that died while it was idle is not asked"
        large = pictures.saved(pictures.drawn(9_000, 9_000), "PNG", compress_level=1)
        small = Children(1, 256 << 20)
        with pytest.raises(Permanent, match="memory"):
            small.see(large, Spec(64, "JPEG", 100_000_000, 60.0))
        assert not small.idle
        assert small.see(pictures.telling(), SPEC).found["height"] == 320
        small.close()
    finally:
        seen.close()


def test_a_child_killed_in_the_middle_costs_a_try() -> None:
    seen = Children(1, MEMORY)
    large = pictures.saved(pictures.drawn(7_000, 7_000), "PNG", compress_level=1)
    errors: list[Exception] = []

    def look() -> None:
        try:
            seen.see(large, SPEC)
        except Transient as error:
            errors.append(error)

    seen.see(pictures.telling(), SPEC)
    process = seen.idle[0].process
    thread = threading.Thread(target=look)
    thread.start()
    until(lambda: psutil.Process(process.pid).memory_info().rss > 100_000_000, "the child decodes")
    os.kill(process.pid, signal.SIGKILL)
    thread.join()
    assert "signal 9" in str(errors[0])
    seen.close()


def test_children_have_no_secrets_and_write_no_files() -> None:
    os.environ["SHOP_TOKEN"] = "SECRET"
    seen = Children(1, MEMORY)
    try:
        seen.see(pictures.telling(), SPEC)
        pid = seen.idle[0].process.pid
        assert b"SECRET" not in Path(f"/proc/{pid}/environ").read_bytes()
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert next(line.split()[3] for line in limits.splitlines() if line.startswith("Max file size")) == "0"
    finally:
        seen.close()
        del os.environ["SHOP_TOKEN"]


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


def test_near_doubles_within_the_job_and_of_known_pictures(scene: Scene, folder: Path) -> None:
    known = pictures.drawn(seed=21)
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.known_pictures (name text, phash text)")
    files = {
        "a first.jpg": pictures.saved(pictures.drawn(640, 480, seed=20)),
        "b smaller.jpg": pictures.saved(pictures.drawn(seed=20), quality=60),
        "c other format.png": pictures.saved(pictures.drawn(seed=20), "PNG"),
        "d other.jpg": pictures.saved(pictures.drawn(seed=22)),
        "e known.jpg": pictures.saved(known, quality=50),
        "f equal.jpg": pictures.saved(pictures.drawn(seed=22)),
    }
    scene.declare(RECIPE.format(recipe=""))
    job = scene.done("pictures", source=filled(folder, files))
    first = {name: row["Double"] for name, row in by_file(scene, job).items()}
    assert first == {
        "a first.jpg": "",
        "b smaller.jpg": "a first.jpg",
        "c other format.png": "a first.jpg",
        "d other.jpg": "",
        "e known.jpg": "",
        "f equal.jpg": "d other.jpg",
    }
    with transaction(scene.pool) as connection:
        hash_ = by_file(scene, job)["e known.jpg"]["Hash"]
        connection.execute(
            "INSERT INTO known_pictures VALUES ('the known one', %s), ('far away', %s)", (hash_, "0" * 16)
        )
    scene.declare(RECIPE.format(recipe='reference = { table = "known_pictures", id = "name", hash = "phash" }'))
    job = scene.done("pictures", source=str(folder))
    assert by_file(scene, job)["e known.jpg"]["Double"] == "the known one"
    assert by_file(scene, job)["f equal.jpg"]["Double"] == "d other.jpg"


def test_thumbnails_of_equal_pictures_are_one_file_in_any_storage(scene: Scene, folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "thumbs"
    to.mkdir()
    scene.declare(RECIPE.format(recipe=f'thumbnails = "{to}"\nthumbnail = 64'))
    job = scene.done("pictures", source=filled(folder, {"a.jpg": pictures.telling(), "b.jpg": pictures.telling()}))
    addresses = {row["Thumbnail"] for row in scene.grid(job)}
    files = [each for each in to.rglob("*") if each.is_file()]
    assert len(addresses) == len(files) == 1
    assert str(files[0]) in next(iter(addresses))


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


def test_trying_a_folder_writes_nothing(scene: Scene, folder: Path) -> None:
    scene.declare(RECIPE.format(recipe=""))
    found = library.load(current())
    tried = trial.run(scene.pool, found, found.recipe("pictures"), filled(folder, good()), 3, current())
    lines = [line for row in tried for line in trial.lines(row)]
    assert len(lines) == 3
    assert not (scene.folder / "home" / "thumbnails").exists()
