"""A lane reads the first block of its next range while the last block of the one before is still being written."""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import work
from bulk_pipelines.imports.work import Read
from bulk_pipelines.settings.engine import EngineSettings
from bulk_pipelines_tests.scenes.import_jobs import HASTY, Imports, counts, file_of
from bulk_pipelines_tests.scenes.upserts import EMAILS, GOOD


def with_a_look(imports: Imports, look: Callable[[Read], None]) -> Imports:
    """Return the same imports, with a look at each block before it is written."""
    loader = work.Loader(limits_of(EngineSettings()).load, look)
    return replace(imports, kinds=Kinds(replace(kind, handle=loader.handle) for kind in HASTY.values()))


def test_the_next_range_is_leased_while_the_last_block_is_written(imports: Imports) -> None:
    claimed: list[int] = []

    def look(_: Read) -> None:
        ((left,),) = imports.query("SELECT count(*) FROM job_item WHERE lease_term = 0")
        claimed.append(4 - left)

    job = imports.planned(file_of(*GOOD))
    ended = with_a_look(imports, look).worked(job)
    assert claimed == [2, 3, 4, 4]
    assert (ended.status, sorted(imports.users())) == (JobState.COMPLETED, sorted(EMAILS))


def test_a_range_that_was_begun_early_is_read_anew_by_the_next_worker(imports: Imports) -> None:
    def stop(read: Read) -> None:
        worker.stop()

    job = imports.planned(file_of(*GOOD))
    with Worker(imports.engine, with_a_look(imports, stop).kinds, job) as worker:
        worker.run_once()
    assert (sorted(imports.users()), imports.look(job).running_items) == (EMAILS[:2], 0)
    ended = imports.worked(job)
    assert counts(ended) == {"read": len(GOOD), "loaded": len(GOOD)}


def test_an_import_that_is_broken_begins_no_further_range(imports: Imports) -> None:
    job = imports.planned(file_of(("bad@x.org", "bad", "king"), *GOOD), on_error="abort")
    ended = imports.worked(job)
    assert (ended.status, sorted(imports.users())) == (JobState.FAILED, EMAILS[:2])


@contextmanager
def without_collector() -> Iterator[None]:
    """Leave cycles of garbage where they are, so that nothing is closed by chance."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left_of(imports: Imports) -> list[str]:
    """Return the threads that read ahead, and the open files of the imports."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")]
    files = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            files.append(str(descriptor.readlink()))
    return threads + [file for file in files if file.startswith(str(imports.folder))]


@pytest.mark.parametrize("way", ["stop", "interrupt", "failure", "abort"])
def test_a_worker_that_leaves_leaves_no_reader_behind(imports: Imports, way: str) -> None:
    def look(read: Read) -> None:
        assert left_of(imports), "something is being read"
        match way:
            case "stop":
                worker.stop()
            case "interrupt":
                raise KeyboardInterrupt
            case "failure":
                worker.stop()
                raise OSError("the block cannot be written")

    rows = [("bad@x.org", "bad", "king"), *GOOD] if way == "abort" else GOOD
    job = imports.planned(file_of(*rows), on_error="abort" if way == "abort" else "continue")
    with without_collector():
        with suppress(KeyboardInterrupt), Worker(imports.engine, with_a_look(imports, look).kinds, job) as worker:
            worker.run_once()
        assert left_of(imports) == []
    assert imports.look(job).running_items == 0
