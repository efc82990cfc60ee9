"""Rows of the registry whose files are gone from the storage: what leaves, what stays, and in how many looks."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import retention
from bulk_pipelines.distribution.files import target
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.distribution import Scene, many
from bulk_pipelines_tests.scenes.listening import before, listening
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place


def forget(scene: Scene, *, most: int = 1_000, dry_run: bool = False) -> int:
    place = target.opened(f"{scene.place.url}/exports", scene.place.access)
    return retention.forget(scene.pool, place, most=most, concurrency=4, dry_run=dry_run)


def distributed(scene: Scene, count: int) -> list[str]:
    """Make so many files, and return their names in the order of the registry."""
    scene.have(many(count), rows=1)
    scene.done(many(count))
    names = list(scene.registry())
    assert len(names) == count
    return names


def remove(scene: Scene, names: list[str]) -> None:
    """Delete the files with these names behind the registry's back."""
    found = scene.registry()
    with locations.folder(scene.place.url, scene.place.access) as storage:
        storage.delete(*(found[name].path.removeprefix(f"{scene.place.url}/") for name in names))


def test_what_is_gone_leaves_and_the_rest_stays(either: Scene) -> None:
    names = distributed(either, 30)
    remove(either, names[::3])
    kept = {name: row for name, row in either.registry().items() if name not in names[::3]}
    assert forget(either, dry_run=True) == 10
    assert len(either.registry()) == 30
    assert forget(either) == 10
    assert either.registry() == kept
    assert forget(either) == 0
    # What was forgotten is generated again, and registered.
    answer = either.answer(either.done(many(30)))
    assert (answer["filesGenerated"], answer["filesReused"]) == (10, 20)
    assert list(either.registry()) == names


def test_a_pass_is_bounded_and_the_next_one_goes_on(scene: Scene, faulty_s3: FaultyProxy) -> None:
    scene = scene.on(faulty_s3.bucket())
    names = distributed(scene, 25)
    remove(scene, names[2:24])
    before = faulty_s3.counts()["HEAD", ""]
    assert forget(scene, most=10) == 8
    assert list(scene.registry()) == [*names[:2], *names[10:]]
    assert forget(scene, most=10, dry_run=True) == 10
    assert forget(scene, most=10, dry_run=True) == 10  # which moves nothing
    assert forget(scene, most=10) == 10
    assert forget(scene, most=10) == 4  # and at the end, the walk is over
    assert list(scene.registry()) == [*names[:2], names[24]]
    assert faulty_s3.counts()["HEAD", ""] - before == 10 + 10 + 10 + 10 + 5
    remove(scene, names[:1])
    assert forget(scene, most=10) == 1  # and begins anew


def test_many_batches_in_one_pass(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 7)
    names = distributed(scene, 40)
    remove(scene, names[:39])
    assert forget(scene, most=20) == 20
    assert forget(scene, most=100) == 19
    assert list(scene.registry()) == names[39:]


def test_a_storage_that_is_away_says_nothing(scene: Scene, faulty_s3: FaultyProxy) -> None:
    scene = scene.on(faulty_s3.bucket())
    names = distributed(scene, 20)
    remove(scene, names[:10])
    with faulty_s3.down():
        assert forget(scene) == 0
    assert len(scene.registry()) == 20
    assert forget(scene) == 10


def test_a_pass_that_is_cut_short_keeps_what_it_did(
    scene: Scene, faulty_s3: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 5)
    scene = scene.on(faulty_s3.bucket())
    names = distributed(scene, 20)
    remove(scene, names[:19])
    faulty_s3.add(Fault("status", method="HEAD", status=500, match=names[12]))
    assert forget(scene) == 10
    assert list(scene.registry()) == names[10:]
    faulty_s3.clear()
    before = faulty_s3.counts()["HEAD", ""]
    assert forget(scene) == 9
    assert faulty_s3.counts()["HEAD", ""] - before == 10


@pytest.mark.parametrize("status", [500, 503, 403])
def test_a_refused_look_says_nothing(scene: Scene, faulty_s3: FaultyProxy, status: int) -> None:
    scene = scene.on(faulty_s3.bucket())
    names = distributed(scene, 5)
    remove(scene, names[:3])
    faulty_s3.add(Fault("status", method="HEAD", status=status, match=names[1], body=b""))
    forget(scene)
    assert set(names) - set(scene.registry()) <= {names[0], names[2]}
    assert names[1] in scene.registry()
    faulty_s3.clear()
    forget(scene)
    forget(scene)
    assert list(scene.registry()) == names[3:]


def test_wrong_credentials_say_nothing(scene: Scene, s3_bucket: Place) -> None:
    scene = scene.on(s3_bucket)
    names = distributed(scene, 5)
    remove(scene, names[:3])
    access = replace(s3_bucket.access, s3=replace(s3_bucket.access.s3, secret_access_key="wrong"))
    assert forget(scene.on(Place(s3_bucket.url, access))) == 0
    assert list(scene.registry()) == names


def test_a_bucket_that_is_missing_says_nothing(scene: Scene, s3_bucket: Place) -> None:
    """When somebody looks at an object, S3 answers 404 also if there is no such bucket."""
    scene = scene.on(s3_bucket)
    distributed(scene, 5)
    with transaction(scene.pool) as connection:
        connection.execute("UPDATE export_artifact SET path = replace(path, 's3://test-', 's3://another-')")
    another = scene.on(Place(s3_bucket.url.replace("s3://test-", "s3://another-"), s3_bucket.access))
    assert forget(another) == 0
    assert len(another.registry()) == 5


@pytest.mark.parametrize("what", ["no folder", "an empty folder"])
def test_a_folder_that_is_not_mounted_says_nothing(scene: Scene, tmp_path: Path, what: str) -> None:
    names = distributed(scene, 5)
    root = Path(scene.place.url) / "exports"
    root.rename(tmp_path / "unmounted")
    if what == "an empty folder":
        root.mkdir()
    assert forget(scene) == 0
    assert list(scene.registry()) == names
    shutil.rmtree(root, ignore_errors=True)
    (tmp_path / "unmounted").rename(root)
    remove(scene, names[:1])
    assert forget(scene) == 1


def test_files_of_another_target_stay(scene: Scene, tmp_path: Path) -> None:
    names = distributed(scene, 3)
    shutil.rmtree(scene.place.url)
    elsewhere = scene.on(Place(str(tmp_path / "elsewhere"), scene.place.access))
    elsewhere.have([{"indexKey": "OTHER", "effectiveDate": 20240202, "asofindicator": "CLS"}])
    elsewhere.done([{"indexKey": "OTHER", "effectiveDate": 20240202, "asofindicator": "CLS"}])
    assert forget(elsewhere) == 0
    assert set(names) < set(elsewhere.registry())


def test_a_file_that_was_generated_meanwhile_stays(scene: Scene) -> None:
    """Another job makes the file again between the look and the deletion: the row is then of another file."""
    names = distributed(scene, 3)
    remove(scene, names[:2])
    made_again = before(queries.text("distribution", "forget_artifacts"), lambda: scene.done(many(1)))
    with listening(scene.pool, made_again) as heard:
        assert forget(replace(scene, pool=heard)) == 1
    assert list(scene.registry()) == [names[0], names[2]]


def test_the_setting_bounds_it_or_turns_it_off(scene: Scene, engine: Engine) -> None:
    names = distributed(scene, 6)
    remove(scene, names[:5])
    settings = replace(scene.settings, distribution_url=f"{scene.place.url}/exports")
    assert retention.prune_registry(engine, replace(settings, registry_checks=0), False) == 0
    assert retention.prune_registry(engine, replace(settings, registry_checks=2), True) == 2
    assert retention.prune_registry(engine, replace(settings, registry_checks=2), False) == 2
    assert retention.prune_registry(engine, settings, False) == 3
    assert list(scene.registry()) == names[5:]
