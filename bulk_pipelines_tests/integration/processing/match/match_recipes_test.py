"""Recipes that match rows: what is refused, and where they may be written."""

from typing import Any

import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current, shipped
from bulk_pipelines_tests.scenes.matching import COMPANIES, ROWS, declare
from bulk_pipelines_tests.scenes.processing import Scene


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('names = []\nid = "id"\ntable = "x"', "names"),
        ('names = ["n"]\nid = "id"', "names one reference"),
        ('names = ["n"]\nid = "id"\ntable = "x"\nfile = "y"', "names one reference"),
        ('names = ["n"]\nid = "id"\ntable = "a.b.c"', "no name of a table"),
        ('names = ["n"]\ntable = "x"', "id"),
        ('names = ["n"]\nid = "id"\ntable = "x"\ncolour = "c"', "colour"),
    ],
)
def test_declarations_that_are_wrong(scene: Scene, options: str, why: str) -> None:
    variants = 'variants = [{ name = "n", query = "{n}" }]'
    scene.declare(f'[recipe.x]\ntype = "match"\n{variants}\n[recipe.x.reference]\n{options}\n')
    with pytest.raises(InvalidInput, match=why):
        library.load(current())


def test_recipes_are_tried_on_a_few_rows(scene: Scene, table: str, database_url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    declare(scene, table)
    done = CliRunner().invoke(main, ["recipes", "try", "companies", scene.file(ROWS), "--rows", "2"])
    assert done.exit_code == 0, done.output
    assert '"id": "1"' in done.output
    assert done.output.count("row ") == 2


def test_the_sample_is_worked_by_its_file(scene: Scene, database_url: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    samples = shipped("samples")
    tried = CliRunner().invoke(
        main, ["recipes", "try", str(samples / "companies.toml"), str(samples / "companies.csv"), "--rows", "1"]
    )
    assert '"id": "R-0001"' in tried.output, tried.output
    words = ["process", str(samples / "companies.csv"), "--recipe", str(samples / "companies.toml"), "--submit-only"]
    key = CliRunner().invoke(main, words).output.split()[1]
    with transaction(scene.pool) as connection:
        jobs.start(connection, key)
    planning.plan(scene.pool, scene.job(key))
    job = scene.worked(scene.job(key))

    found = [(row["Register id"], row["Outcome"]) for row in scene.grid(job)]
    assert found == [
        ("R-0001", "matched"),
        ("R-0003", "matched"),
        ("", "ambiguous"),
        ("R-0004", "matched"),
        ("R-0005", "matched"),
        ("R-0006", "matched"),
        ("", "no match"),
        ("", "skipped"),
    ]


def test_recipes_are_written_in_yaml_too(scene: Scene) -> None:
    path = scene.recipes / "companies.yaml"
    path.write_text(
        """
        recipe:
          companies:
            type: match
            variants: [{name: name, query: "{company}"}]
            columns: [{header: Id, evidence: id}]
            reference: {file: companies.csv, id: id, names: [name]}
        """
    )
    (scene.recipes / "companies.csv").write_text(COMPANIES)
    job = scene.done("companies", source=scene.file("company\nNordic Timber\n"))
    assert [row["Id"] for row in scene.grid(job)] == ["4"]
    path.write_text("recipe: [")
    with pytest.raises(InvalidInput, match=r"companies.yaml: is not YAML"):
        library.load(current())
    path.write_text("recipe: !!python/object/apply:os.system ['true']")
    with pytest.raises(InvalidInput, match="not YAML"):
        library.load(current())


def test_a_file_with_a_recipe_brings_no_provider_along(scene: Scene) -> None:
    path = scene.folder / "shop.toml"
    path.write_text(
        '[provider.shop]\naddress = "https://shop.example/"\n[recipe.x]\ntype = "reconcile"\nprovider = "shop"\n'
        'variants = [{ name = "n", query = "{n}" }]\n'
    )
    assert library.tried(current(), str(path))[1].name == "x"
    with pytest.raises(InvalidInput, match="'shop' is not declared"):
        library.chosen_by(current(), str(path))
    path.write_text("")
    with pytest.raises(InvalidInput, match="0 recipes"):
        library.chosen_by(current(), str(path))
    with pytest.raises(InvalidInput, match="cannot be read"):
        library.chosen_by(current(), str(scene.folder / "nowhere.toml"))
