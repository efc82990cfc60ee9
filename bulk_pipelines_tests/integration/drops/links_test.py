"""Who may write to an inbox gets nothing read that lies elsewhere: not by a link, whenever it is put there."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.drops.sources import Rule
from bulk_pipelines.imports.plan import planning
from bulk_pipelines_tests.scenes import drops as drop_scene
from bulk_pipelines_tests.scenes.drop_imports import Drops
from bulk_pipelines_tests.scenes.drops import folder_box
from bulk_pipelines_tests.scenes.opening import before_opening

MINE = {"users.csv": drop_scene.users("here", 2), "users-in/users.csv": drop_scene.users("deep", 2)}
SECRET = drop_scene.users("else", 2)


@pytest.fixture
def drops(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drops:
    """A file and one in a folder, taken; and what the service can read elsewhere, of the same size and time."""
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    made = Drops(engine, folder_box(tmp_path / "inbox"))
    (tmp_path / "outside").mkdir()
    for name, content in MINE.items():
        made.box.drop(name, content)
    (tmp_path / "outside" / "users.csv").write_bytes(SECRET)
    for path in tmp_path.rglob("users.csv"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert {len(each) for each in MINE.values()} == {len(SECRET)}, "else the version tells"
    made.source = replace(made.source, rules=(Rule("**/*.csv", "users"),))
    return made


def swap_file(inbox: Path) -> None:
    (inbox / "users.csv").unlink()
    (inbox / "users.csv").symlink_to(inbox.parent / "outside" / "users.csv")


def swap_folder(inbox: Path) -> None:
    (inbox / "users-in").rename(inbox / "before")
    (inbox / "users-in").symlink_to(inbox.parent / "outside")


SWAPS = {"users.csv": swap_file, "users-in/users.csv": swap_folder}


@pytest.mark.parametrize("name", SWAPS)
def test_a_link_between_the_look_and_landing(drops: Drops, name: str) -> None:
    job = drops.taken()
    SWAPS[name](Path(drops.box.url))
    done = drops.work(job)
    assert done.status == "COMPLETED_WITH_ERRORS"
    left_alone(drops, name)


@pytest.mark.parametrize("name", SWAPS)
def test_a_link_while_it_is_landed(drops: Drops, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put there after the path was looked at, and before the file is opened."""
    job = drops.taken()
    monkeypatch.setattr(planning, "FILES_AT_ONCE", 1)
    with before_opening(name.split("/", maxsplit=1)[0], lambda: SWAPS[name](Path(drops.box.url))):
        drops.work(job)
    left_alone(drops, name)


def left_alone(drops: Drops, name: str) -> None:
    """Check that the other file is loaded, that the secret is not, and that nobody can read it in what was landed."""
    other = "here" if name != "users.csv" else "deep"
    assert drops.users() == [f"reader{number}@{other}.example.org" for number in range(2)]
    landed = Path(drops.box.url).parent / "home" / "landed"
    assert [path for path in landed.rglob("*") if path.is_file() and SECRET in path.read_bytes()] == []
    drops.clear_up()
    ended = {path: (status, note or "") for path, status, note in drops.ends()}
    status, note = ended[name]
    assert status == "FAILED"
    assert "link" in note, note
    assert (Path(drops.box.url).parent / "outside" / "users.csv").read_bytes() == SECRET
