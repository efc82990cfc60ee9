"""Photos a second: metadata, hash and thumbnail, against a loop of Pillow in four threads.

The photos are the benchmark's own: JPEG of 2 to 12 megapixels, as smooth and as noisy as cameras make them. Ours is a
job in PostgreSQL, from the folder to the settled rows, with the start of the processes that decode. The loop does what
people write: it opens a photo, turns it, hashes it and saves a thumbnail. A second loop decodes as small as Pillow can,
too.
`BENCH_PICTURES` says how many photos there are (2,000).
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from benchmarks import measure
from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.processing.image import children
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest, kind_name

PICTURES = int(os.environ.get("BENCH_PICTURES", "2000"))
ROUNDS = 2
SIDE = 256
ORIENTATION = 0x0112


def made(folder: Path, number: int) -> None:
    """Write a photo: a few large shapes, finer ones on them, and the noise of a camera."""
    chance = np.random.default_rng(number)
    pixels = random.Random(number).uniform(2e6, 12e6)
    width, height = round((pixels * 4 / 3) ** 0.5), round((pixels * 3 / 4) ** 0.5)
    rough = np.zeros((height // 4, width // 4, 3), np.float32)
    for cells, strength in ((6, 90.0), (40, 40.0), (250, 20.0)):
        shapes = (chance.normal(0, strength, (cells * 3 // 4 + 1, cells, 3)) + 128).clip(0, 255).astype(np.uint8)
        small = Image.fromarray(shapes).resize((width // 4, height // 4), Image.Resampling.BICUBIC)
        rough += np.asarray(small, np.float32) - 128
    smooth = Image.fromarray((rough + 128).clip(16, 239).astype(np.uint8)).resize((width, height))
    noise = chance.normal(0, 3, (256, 256, 1)).clip(-16, 16).astype(np.int8).view(np.uint8)
    grain = np.tile(noise, (height // 256 + 1, width // 256 + 1, 1))[:height, :width]
    # Eight bits wrap around, so adding a negative number in two's complement subtracts.
    image = Image.fromarray(np.asarray(smooth) + grain)
    exif = Image.Exif()
    exif[ORIENTATION] = 6 if number % 5 == 0 else 1
    image.save(folder / f"{number:05}.jpg", quality=90, exif=exif)


def ours(url: str, folder: Path) -> float:
    request = ProcessingRequest.parse(library.load(settings.current()).to_run("image"), source=str(folder))
    engine = pool.connect(url, size=10)
    begun = time.perf_counter()
    with transaction(engine) as connection:
        job = submission.submit(
            connection, KINDS, submission.Request(kind_name("image"), "bench", request.as_params())
        ).job
        jobs.start(connection, job.job_key)
    job = planning.plan(engine, job)
    with Worker(engine, KINDS, job) as worker:
        drain.drain(worker)
    seconds = time.perf_counter() - begun
    for each in children.OPEN.values():
        each.close()
    with transaction(engine) as connection:
        job = jobs.find(connection, job.job_key)
        connection.execute("DELETE FROM job WHERE job_id = %s", (job.job_id,))
    engine.dispose()
    assert job.status is JobState.COMPLETED, job.last_error
    return seconds


def hashed(image: Image.Image) -> str:
    """The hash that the library ImageHash calls phash, without SciPy's Fourier transform."""
    pixels = np.asarray(image.convert("L").resize((32, 32), Image.Resampling.LANCZOS), np.float64)
    low = WAVES @ pixels @ WAVES.T
    return "".join("01"[each] for each in (low > np.median(low)).flatten().tolist())


WAVES = np.cos(np.pi * np.outer(np.arange(8), 2 * np.arange(32) + 1) / 64)


def plain(path: Path, to: Path) -> tuple[object, ...]:
    with Image.open(path) as image:
        size, kind, exif = image.size, image.format, image.getexif()
        whole = ImageOps.exif_transpose(image)
        found = hashed(whole)
        whole.thumbnail((SIDE, SIDE))
        whole.convert("RGB").save(to / path.name, "JPEG", quality=82, exif=b"")
    return size, kind, exif.get(ORIENTATION), found


def drafted(path: Path, to: Path) -> tuple[object, ...]:
    with Image.open(path) as image:
        size, kind, exif = image.size, image.format, image.getexif()
        image.thumbnail((SIDE, SIDE))
        small = ImageOps.exif_transpose(image)
        found = hashed(small)
        small.convert("RGB").save(to / path.name, "JPEG", quality=82, exif=b"")
    return size, kind, exif.get(ORIENTATION), found


def loop(work: Callable[[Path, Path], object], folder: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as to, ThreadPoolExecutor(4) as threads:
        begun = time.perf_counter()
        found = list(threads.map(lambda path: work(path, Path(to)), sorted(folder.iterdir())))
        assert len(found) == PICTURES
        return time.perf_counter() - begun


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bulk-bench-") as name, measure.server() as running:
        folder = Path(name) / "pictures"
        folder.mkdir()
        begun = time.perf_counter()
        with ProcessPoolExecutor() as makers:
            list(makers.map(partial(made, folder), range(PICTURES), chunksize=8))
        size = sum(each.stat().st_size for each in folder.iterdir())
        took = time.perf_counter() - begun
        print(f"{PICTURES:,} photos, {size / 1e6:,.0f} MB, made in {took:.0f} s", file=sys.stderr)
        os.environ |= {"BULK_HOME": name, "BULK_RECIPES": name}
        with measure.database(running) as url:
            sides = [partial(ours, url, folder), partial(loop, plain, folder), partial(loop, drafted, folder)]
            samples = measure.in_turns(sides, ROUNDS)
        rates = [[PICTURES / each for each in some] for some in samples]
        for label, some in zip(("ours", "loop", "loop that decodes small"), rates, strict=True):
            measure.show(label, some, "photos/s")
        best = [max(some) for some in rates]
        measure.report("image-rate", best[0], best[1], "photos/s")
        measure.report("image-rate-small", best[0], best[2], "photos/s")


if __name__ == "__main__":
    main()
