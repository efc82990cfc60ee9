"""Dropped files whose rows are processed by a recipe: each is a job of its own, once, and is put away afterwards."""

import gzip
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines import doctor
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import sources
from bulk_pipelines.drops.sources import After, Rule
from bulk_pipelines.engine.jobs import jobs, redrive
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines_tests.scenes.inbox import Inbox
from bulk_pipelines_tests.scenes.processing import Scene

RECIPE = """
[recipe.companies]
type = "match"
needs = ["company"]
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "Company", input = "company" }}, {{ header = "Id", evidence = "id" }}]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
"""


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(engine, tmp_path, monkeypatch)
    made.declare(RECIPE.format(file=made.file("id,name\n7,Nordic Timber\n", "register.csv")))
    return made


@pytest.fixture
def inbox(engine: Engine, scene: Scene) -> Inbox:
    made = Inbox(engine, scene.folder / "inbox")
    rules = (Rule("*.rows.csv", recipe="companies"), Rule("users*", "users"))
    made.set(rules=rules, after=After.MOVE, failed_folder="failed")
    return made


def planned(scene: Scene, key: str) -> None:
    with transaction(scene.pool) as connection:
        jobs.start(connection, key)
    planning.plan(scene.pool, scene.job(key))


def left(inbox: Inbox) -> list[str]:
    return sorted(str(path.relative_to(inbox.folder)) for path in inbox.folder.rglob("*") if path.is_file())


def test_each_dropped_file_is_a_job_once_and_is_put_away(scene: Scene, inbox: Inbox) -> None:
    inbox.drop("a.rows.csv", "company\nnordic timber\n")
    inbox.drop("b.rows.csv", "company\nnobody\n")
    inbox.drop("users.csv")
    keys = inbox.look().jobs
    assert len(keys) == 3, "a job for each file of rows, and one import"
    assert inbox.look().taken == 0
    found = {}
    for key in keys:
        job = scene.job(key)
        if job.kind == "process_match":
            planned(scene, key)
            (row,) = scene.grid(scene.worked(scene.job(key)))
            found[Path(job.params["source"]).name] = row["Id"]
            assert (job.owner, job.origin) == ("inbox", "sensor")
    assert found == {"a.rows.csv": "7", "b.rows.csv": ""}
    assert inbox.clear_up() == 2
    put = {Path(path).name for path in left(inbox) if path.startswith("done/J")}
    assert put == {"a.rows.csv", "b.rows.csv"}
    assert inbox.statuses() == {"a.rows.csv": "DONE", "b.rows.csv": "DONE", "users.csv": "TAKEN"}
    assert inbox.clear_up() == 0


def test_a_rule_says_how_its_files_are_written(scene: Scene, inbox: Inbox) -> None:
    reading = Reading.of({"encoding": "cp1252", "map": {"company": "Firma"}})
    inbox.set(rules=(Rule("*.csv", recipe="companies", compression="gzip", reading=reading),))
    text = "Nr;Firma\n1;Nördic; Timber\n2;Nördic Timber\n"
    inbox.folder.mkdir(exist_ok=True)
    (inbox.folder / "a.csv").write_bytes(gzip.compress(text.encode("cp1252")))
    (key,) = inbox.look().jobs
    planned(scene, key)
    scene.worked(scene.job(key))
    assert [row["Id"] for row in scene.grid(scene.job(key))] == ["", "7"]


def test_a_file_that_fails_is_put_away_as_failed_and_mended_by_a_redrive(scene: Scene, inbox: Inbox) -> None:
    inbox.drop("a.rows.csv", 'company\n"nordic" timber\n')
    (key,) = inbox.look().jobs
    planned(scene, key)
    assert scene.worked(scene.job(key)).status == "FAILED", "its record cannot be read"
    assert inbox.clear_up() == 1
    assert left(inbox) == [f"failed/{key}/a.rows.csv"]
    with transaction(scene.pool) as connection:
        connection.execute("""UPDATE job_item SET input = '{"company": "Nordic Timber"}'""")
    redrive.redrive(scene.pool, key)
    assert scene.worked(scene.job(key)).status == "COMPLETED"
    assert inbox.clear_up() == 1
    assert left(inbox) == [f"done/{key}/a.rows.csv"]


def test_the_version_that_was_taken_is_processed_or_none(scene: Scene, inbox: Inbox) -> None:
    inbox.drop("a.rows.csv", "company\nnordic timber\n")
    (key,) = inbox.look().jobs
    inbox.drop("a.rows.csv", "company\nsomebody else\nand more\n")
    with pytest.raises(SourceChanged):
        planned(scene, key)
    with transaction(scene.pool) as connection:
        jobs.fail(connection, key, "it was replaced")
    assert inbox.clear_up() == 1
    (newer,) = inbox.look().jobs
    planned(scene, newer)
    assert len(scene.rows(scene.job(newer))) == 2


def test_a_link_that_leads_out_is_not_followed(scene: Scene, inbox: Inbox) -> None:
    path = inbox.drop("a.rows.csv", "company\nnordic timber\n")
    (key,) = inbox.look().jobs
    secret = scene.folder / "secret.csv"
    path.rename(secret)
    path.symlink_to(secret)
    with pytest.raises(Exception, match=r"a\.rows\.csv"):
        planned(scene, key)


def test_a_recipe_that_is_not_declared_is_named(scene: Scene, inbox: Inbox) -> None:
    inbox.set(rules=(Rule("*", recipe="nothing"),))
    inbox.drop("a.csv", "company\nx\n")
    looked = inbox.look()
    assert "there is no recipe 'nothing'" in str(looked)
    assert inbox.statuses() == {"a.csv": "WATCHED"}
    file = scene.folder / "drops.toml"
    file.write_text(
        f'[[source]]\nname = "s"\nwhere = "{inbox.folder}"\n[[source.files]]\nglob = "*"\nrecipe = "nothing"\n'
    )
    chosen = Settings(home=scene.folder / "home", drops_file=file, recipes_folder=str(scene.recipes))
    (finding,) = doctor.drops(chosen)
    assert "there is no recipe 'nothing'" in finding.message


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ('glob = "*"', "a rule names one of resource, table, recipe"),
        ('glob = "*"\nrecipe = "x"\nresource = "users"', "a rule names one of resource, table, recipe"),
        ('glob = "*"\nrecipe = "x"\nmode = "upsert"', "mode is said of imports"),
        ('glob = "*"\nrecipe = "x"\nformat = "pdf"', "none of csv"),
        ('glob = "*"\nrecipe = 5', "not a text"),
    ],
)
def test_rules_that_are_wrong(tmp_path: Path, rule: str, why: str) -> None:
    file = tmp_path / "drops.toml"
    file.write_text(f'[[source]]\nname = "s"\nwhere = "{tmp_path}"\n[[source.files]]\n{rule}\n')
    with pytest.raises(InvalidInput, match=why):
        sources.load(file, ["users"], tmp_path / "inbox")
