"""Files that are used again, and those that only look as if they could be."""

from datetime import date
from pathlib import Path

import pytest

from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.distribution import TODAY, Scene, many, measured, paths, wanted
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place

ABC = wanted("ABC")


def replace_file(scene: Scene, path: str, content: bytes | None) -> None:
    """Replace or remove the file behind the registry's back."""
    with locations.folder(scene.place.url, scene.place.access) as storage:
        key = path.removeprefix(f"{scene.place.url}/")
        storage.delete(key)
        if content is not None:
            storage.put(key, content)


def test_a_file_is_used_again(either: Scene) -> None:
    inputs = many(20)
    either.have(inputs)
    first = either.done(inputs[:15])
    registry, files = either.registry(), either.files()
    second = either.done(inputs)
    answer = either.answer(second)
    assert (answer["filesGenerated"], answer["filesReused"], answer["done"]) == (5, 15, 20)
    assert paths(answer) == [either.path(first if n < 15 else second, each) for n, each in enumerate(inputs)]
    assert {name: row for name, row in either.registry().items() if name in registry} == registry
    assert len(either.files()) == 20
    assert {path: either.files()[path] for path in files} == files
    item = either.items(second)["IDX00000"]
    assert item.result is not None
    assert (item.result["reused"], item.result["sourceJob"]) == (True, first.job_key)
    third = either.done(inputs)
    assert either.answer(third)["filesReused"] == 20


def test_a_reused_file_is_not_written(scene: Scene, faulty_s3: FaultyProxy) -> None:
    scene = scene.on(faulty_s3.bucket())
    scene.have([ABC])
    scene.done([ABC])
    before = faulty_s3.counts()
    scene.done([ABC])
    assert faulty_s3.counts() - before == {("HEAD", ""): 1}


@pytest.mark.parametrize(("enabled", "days", "reused"), [(False, 7, 0), (True, 7, 1), (True, 121, 0), (True, 120, 1)])
def test_the_settings_decide(scene: Scene, enabled: bool, days: int, reused: int) -> None:
    """ABC's date is 120 days before today."""
    assert (TODAY - date(2024, 2, 2)).days == 120
    scene.have([ABC])
    first = scene.done([ABC])
    second = scene.with_settings(reuse_files=enabled, reuse_days=days).done([ABC])
    assert scene.answer(second)["filesReused"] == reused
    (row,) = scene.registry().values()
    assert row.source_job_key == (first if reused else second).job_key


@pytest.mark.parametrize("what", ["deleted", "shorter", "other bytes"])
def test_a_file_that_is_not_what_it_was_is_generated_again(either: Scene, what: str) -> None:
    either.have([ABC])
    first = either.done([ABC])
    path = either.path(first, ABC)
    content = either.files()[path]
    changed = {"deleted": None, "shorter": content[:-1], "other bytes": content[:-2] + b"9\n"}[what]
    assert changed != content
    replace_file(either, path, changed)
    second = either.done([ABC])
    answer = either.answer(second)
    assert (answer["filesGenerated"], paths(answer)) == (1, [either.path(second, ABC)])
    (row,) = either.registry().values()
    assert row.path == either.path(second, ABC)
    assert measured(either.files()[row.path]) == (row.size, row.checksum)
    # And from now on that one is used.
    assert either.answer(either.done([ABC]))["filesReused"] == 1


def test_a_restored_copy_of_the_same_bytes_is_used(either: Scene) -> None:
    either.have([ABC])
    first = either.done([ABC])
    path = either.path(first, ABC)
    replace_file(either, path, either.files()[path])
    second = either.done([ABC])
    assert (either.answer(second)["filesReused"], paths(either.answer(second))) == (1, [path])


def test_files_of_another_target_are_not_used(scene: Scene, tmp_path: Path) -> None:
    scene.have([ABC])
    scene.done([ABC])
    moved = scene.on(Place(f"{tmp_path}/elsewhere", scene.place.access))
    assert moved.answer(moved.done([ABC]))["filesGenerated"] == 1


def test_data_that_changed_is_not_seen_by_a_reuse(scene: Scene) -> None:
    """Old data does not change: that is what the days are for."""
    scene.have([ABC], close="1.5")
    first = scene.done([ABC])
    scene.change("ABC", "2.5")
    assert paths(scene.answer(scene.done([ABC]))) == [scene.path(first, ABC)]


def test_a_look_that_fails_is_tried_again(scene: Scene, faulty_s3: FaultyProxy) -> None:
    """A server in trouble does not make a file that is there be generated again."""
    scene = scene.on(faulty_s3.bucket())
    scene.have([ABC])
    scene.done([ABC])
    faulty_s3.add(Fault("status", method="HEAD", times=2))
    job = scene.done([ABC])
    assert scene.answer(job)["filesReused"] == 1
    assert scene.items(job)["ABC"].attempts == 3


def test_a_refused_look_counts_as_not_there(scene: Scene, faulty_s3: FaultyProxy) -> None:
    """S3 answers 403 for what is not there if one has no right to list."""
    scene = scene.on(faulty_s3.bucket())
    scene.have([ABC])
    scene.done([ABC])
    faulty_s3.add(Fault("status", method="HEAD", status=403, body=b"", times=1))
    assert scene.answer(scene.done([ABC]))["filesGenerated"] == 1
