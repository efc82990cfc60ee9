"""Ticks of the drop sensors, as Dagster's daemon evaluates them: what they say; one source does not stop others."""

from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.definitions import defs
from bulk_pipelines.drops import definitions
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.orchestration.resources import Database

SOURCE = """
[[source]]
name = "{name}"
where = "{where}"
settle_seconds = 0

[[source.files]]
glob = "users*"
resource = "users"
"""


class Ticking:
    def __init__(self, url: str, file: Path) -> None:
        self.url = url
        self.file = file

    def sources(self, **places: Path | str) -> None:
        self.file.write_text("".join(SOURCE.format(name=name, where=where) for name, where in places.items()))

    def tick(self, sensor: str) -> str:
        """What it says."""
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(
                instance=instance, definitions=defs, resources={"database": Database(url=self.url)}
            )
            result = defs.resolve_sensor_def(sensor)(context)
        if isinstance(result, dg.SkipReason):
            return str(result.skip_message)
        assert isinstance(result, dg.SensorResult)
        return str(result.skip_reason.skip_message if result.skip_reason else None)


@pytest.fixture
def ticking(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ticking:
    file = tmp_path / "drops.toml"
    monkeypatch.setenv("BULK_DROPS_FILE", str(file))
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    return Ticking(database_url, file)


def test_one_that_is_down_is_said_and_does_not_stop_the_others(
    ticking: Ticking, engine: Engine, tmp_path: Path
) -> None:
    good = tmp_path / "good"
    good.mkdir()
    (good / "users.csv").write_text("id\n")
    ticking.sources(down=tmp_path / "gone", good=good)
    said = ticking.tick("folder_drops")
    assert f"down: {tmp_path}/gone does not exist; next look in 5 s" in said
    assert "good: 1 file seen, 1 taken, as J" in said
    again = ticking.tick("folder_drops")  # without a cursor, as each tick here
    assert "down: " in again
    assert "good: 1 file seen, 0 taken, 1 dealt with before" in again
    with transaction(engine) as connection:
        rows = connection.execute("SELECT owner, origin, kind FROM job").fetchall()
    assert rows == [("good", "sensor", "import_users")]


def test_a_mistake_in_the_drops_file_fails_the_tick(ticking: Ticking, tmp_path: Path) -> None:
    ticking.file.write_text(SOURCE.format(name="a", where=tmp_path).replace("= 0", "= '0'"))
    for sensor in definitions.SCHEMES:
        with pytest.raises(InvalidInput) as failed:
            ticking.tick(sensor)
        assert str(failed.value) == "BULK_DROPS_FILE: source 1: settle_seconds: '0' is not a number"


def test_a_kind_of_source_that_is_not_named_says_where_it_was_looked_for(
    ticking: Ticking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        ticking.tick("s3_drops")
    monkeypatch.chdir(ticking.file.parent)
    assert ticking.tick("s3_drops") == (
        f"no source of this kind: {ticking.file} does not exist, the inbox is the only one"
    )
    ticking.sources(a=tmp_path)
    assert ticking.tick("s3_drops") == "no source of this kind: drops.toml names none"


def test_sources_without_a_turn_are_said(ticking: Ticking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "TICK_SECONDS", 0.0)
    ticking.sources(a=tmp_path)
    assert ticking.tick("folder_drops") == "a: the others took all the time, it comes first in the next tick"
