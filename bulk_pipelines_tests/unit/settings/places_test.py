"""Which installation a command means, and where the program's own files are."""

import os
import shutil
from pathlib import Path

import pytest

from bulk_pipelines import settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import CHECKOUT, places

NOBODY = 65534


def meant(folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[Path, Path]:
    """Return the home and the drops file that a command in this folder means."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    chosen = settings.load(variables)
    return chosen.home, chosen.drops_file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "deep" / "below").mkdir(parents=True)
    return made


def test_without_an_installation_the_current_folder_is_meant(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meant(project, monkeypatch) == (project / ".bulk", project / "drops.toml")


def test_a_command_below_an_installation_means_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".bulk").mkdir()
    assert meant(project / "deep" / "below", monkeypatch) == (project / ".bulk", project / "drops.toml")
    (project / "deep" / ".bulk").mkdir()
    assert meant(project / "deep" / "below", monkeypatch)[0] == project / "deep" / ".bulk"


def test_a_file_of_drops_makes_an_installation_before_its_first_start(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "drops.toml").touch()
    assert meant(project / "deep", monkeypatch) == (project / ".bulk", project / "drops.toml")


def test_a_home_that_is_named_leaves_the_file_of_drops_where_it_is(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "drops.toml").touch()
    elsewhere = tmp_path / "elsewhere"
    assert meant(project / "deep", monkeypatch, BULK_HOME=str(elsewhere)) == (elsewhere, project / "drops.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_another_user_put_above_is_not_taken_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".bulk").mkdir()
    (project / "drops.toml").touch()
    for each in (".bulk", "drops.toml"):
        os.chown(project / each, NOBODY, NOBODY)
    assert meant(project / "deep", monkeypatch)[0] == project / "deep" / ".bulk"
    assert meant(project, monkeypatch)[0] == project / ".bulk"


def test_a_link_to_nowhere_above_is_not_taken_up(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".bulk").symlink_to(project / "gone")
    assert meant(project / "deep", monkeypatch)[0] == project / "deep" / ".bulk"


def test_a_current_folder_that_is_gone_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "deep")
    shutil.rmtree(project / "deep")
    with pytest.raises(InvalidInput, match="^BULK_HOME: the current folder is gone"):
        settings.load({})
    named = {"BULK_HOME": str(project), "BULK_DROPS_FILE": str(project / "drops.toml")}
    assert settings.load(named).home == project


def test_the_package_has_what_it_reads() -> None:
    assert settings.shipped("sql/migrations/0001_engine.sql").is_file()
    assert settings.shipped("dagster.yaml").samefile(CHECKOUT / "dagster.yaml")
    assert settings.shipped("samples").samefile(CHECKOUT / "docs" / "samples")
    assert places.PACKAGE.parent == CHECKOUT
