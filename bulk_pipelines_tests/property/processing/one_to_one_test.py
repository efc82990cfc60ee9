"""Whatever the names, one-to-one matches no entry twice, and leaves no entry alone that some row matched without it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.today import examples

RECIPE = """
[recipe.{name}]
type = "match"
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "Id", evidence = "id" }}]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
threshold = {threshold}
margin = {margin}
one_to_one = {unique}
"""
WORDS = st.sampled_from(["Nord", "Süd", "bank", "Café", "Дом", "銀行", "of", "AG", "7", "!"])
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=8)


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=NAMES, rows=NAMES, threshold=st.sampled_from([0.05, 0.2, 0.5]), margin=st.sampled_from([0.0, 0.1]))
def test_one_to_one_gives_no_entry_twice_and_none_away(
    scene: Scene, entries: list[str], rows: list[str], threshold: float, margin: float
) -> None:
    file = scene.file("id,name\n" + "".join(f"{n},{name}\n" for n, name in enumerate(entries)), "register.csv")
    source = scene.file("company\n" + "".join(f"{name}\n" for name in rows))
    limits = {"file": file, "threshold": threshold, "margin": margin}
    scene.declare(
        RECIPE.format(name="any", unique="false", **limits) + RECIPE.format(name="once", unique="true", **limits)
    )

    def taken(recipe: str) -> list[str]:
        return [row["Id"] for row in scene.grid(scene.done(recipe, source=source)) if row["Id"]]

    once = taken("once")
    assert len(once) == len(set(once))
    assert set(once) >= set(taken("any"))
