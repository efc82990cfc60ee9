"""Pictures that are made to harm, and the children that decode them: each costs its own row, and at most a child."""

import os
import signal
import threading
from functools import cache
from pathlib import Path

import psutil
import pytest
from PIL import Image

from bulk_pipelines.errors import Permanent, Transient
from bulk_pipelines.processing.image.children import Children, Spec
from bulk_pipelines_tests.scenes import pictures
from bulk_pipelines_tests.scenes.image_jobs import RECIPE, by_file, filled
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.waiting import until

SPEC = Spec(64, "JPEG", 50_000_000, 20.0)
MEMORY = 1 << 30


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
        large = pictures.saved(Image.new("RGB", (9_000, 9_000)), "PNG")
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
