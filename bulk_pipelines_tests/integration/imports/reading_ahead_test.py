"""A lane reads the first block of its next range while the last block of the one before is still being written."""

from collections.abc import Callable
from dataclasses import replace

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
