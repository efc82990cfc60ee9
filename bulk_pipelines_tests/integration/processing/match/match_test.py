"""Rows are matched with tables and files: evidence, thresholds, doubles, and a reference that changes."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines.processing.references.held import Held
from bulk_pipelines.processing.review import deciding
from bulk_pipelines_tests.scenes.matching import ADA, COMPANIES, ROWS, declare, ids
from bulk_pipelines_tests.scenes.processing import Scene


@pytest.mark.parametrize("kind", ["table", "file"])
def test_rows_are_matched_with_a_table_and_with_a_file(scene: Scene, table: str, kind: str) -> None:
    declare(scene, table if kind == "table" else f'file = "{scene.file(COMPANIES, "companies.csv")}"')
    job = scene.done("companies", source=scene.file(ROWS))

    assert job.status is JobState.COMPLETED
    assert ids(scene, job) == [
        ("1", "matched"),
        ("3", "matched"),
        ("", "ambiguous"),
        ("2", "matched"),
        ("", "no match"),
        ("", "skipped"),
    ]
    rows = scene.grid(job)
    assert [row["City"] for row in rows[:2]] == ["Oakland", "Wien"]
    assert rows[3]["Variant"] == "trading as"
    result = scene.rows(job)[2].result
    assert result is not None
    evidence = result["evidence"]
    assert {each["id"] for each in evidence["candidates"]} == {"2", "3"}
    assert evidence["candidates"][0]["answer"]["city"] in ("Jena", "Wien"), "a reviewer sees what the grid would show"
    assert evidence["candidates"][0]["features"]["found"].startswith("Deutsche Lampen")
    assert evidence["provider"] == ("register.Companies" if kind == "table" else "companies.csv")


def test_a_reference_that_changes_is_seen_by_the_next_job(scene: Scene, table: str) -> None:
    declare(scene, table)
    source = scene.file("company,trading_as,country\nNewcomer Works,,\n")
    assert ids(scene, scene.done("companies", source=source)) == [("", "no match")]
    with transaction(scene.pool) as connection:
        connection.execute("""INSERT INTO register."Companies" (id, name) VALUES (9, 'Newcomer Works')""")
    assert ids(scene, scene.done("companies", source=source)) == [("9", "matched")]
    with transaction(scene.pool) as connection:
        connection.execute("""UPDATE register."Companies" SET name = 'Oldtimer' WHERE id = 9""")
    assert ids(scene, scene.done("companies", source=source)) == [("", "no match")]


def test_a_file_is_loaded_once_for_each_of_its_versions(scene: Scene) -> None:
    path = Path(scene.file(COMPANIES, "companies.csv"))
    declare(scene, f'file = "{path}"')
    source = scene.file("company,trading_as,country\nNordic Timber,,\nNewcomer Works,,\n")

    def loads() -> list[Any]:
        with transaction(scene.pool) as connection:
            return connection.execute(
                "SELECT reference_id, (SELECT count(*) FROM reference_row AS r WHERE r.reference_id = f.reference_id)"
                " FROM reference_file AS f"
            ).fetchall()

    scene.done("companies", source=source)
    first = loads()
    scene.done("companies", source=source)
    assert loads() == first
    assert [count for _, count in first] == [4]
    path.write_text(COMPANIES + "5,Newcomer Works,,,Riga\n")
    assert ids(scene, scene.done("companies", source=source)) == [("4", "matched"), ("5", "matched")]
    assert [count for _, count in loads()] == [5]


def test_thresholds_of_the_recipe_hold(scene: Scene, table: str) -> None:
    declare(scene, table, "threshold = 0.999")
    job = scene.done("companies", source=scene.file("company,trading_as,country\nBlue Botle Cofee,,\n"))
    assert ids(scene, job) == [("", "ambiguous")]
    assert "is below 0.999" in scene.grid(job)[0]["Why"]


def test_doubles_of_a_reference_are_found(scene: Scene) -> None:
    companies = COMPANIES + "5,Blue Bottle Coffe,,us,Oakland\n6,Blue Bottle Coffee,,us,\n"
    path = scene.file(companies, "companies.csv")
    declare(scene, f'file = "{path}"', 'itself = "id"')
    text = (scene.recipes / "shop.toml").read_text()
    scene.declare(
        text.replace("{company}", "{name}").replace("{trading_as}", "{former}").replace('"company"', '"name"')
    )
    job = scene.done("companies", source=path)

    found = {row["Company"]: row["Id"] for row in scene.grid(job)}
    assert found["Nordic Timber Oy"] == ""
    assert found["Blue Bottle Coffe"] in ("1", "6")
    assert found["Blue Bottle Coffee"] in ("1", "5")
    result = scene.rows(job)[0].result
    assert result is not None
    assert {each["id"] for each in result["evidence"]["candidates"]} >= {"5", "6"}, (
        "several doubles do not hide another"
    )


def test_reviewers_choose_any_entry_of_the_reference(scene: Scene, table: str) -> None:
    declare(scene, table)
    source = scene.file(ROWS)
    job = scene.done("companies", source=source)
    assert deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA).outcome == "matched"
    assert scene.grid(job)[2]["City"] == "Turku"
    with pytest.raises(InvalidInput, match="no candidate"):
        deciding.decide(scene.pool, job.job_key, "000000003", "accept", "no number", ADA)
    with transaction(scene.pool) as connection:
        connection.execute("""UPDATE register."Companies" SET city = 'Espoo' WHERE id = 4""")
    later = scene.done("companies", source=source)
    assert scene.grid(later)[2]["City"] == "Espoo", "the entry is shown as it is now"
    with transaction(scene.pool) as connection:
        connection.execute('DELETE FROM register."Companies" WHERE id = 4')
    assert ids(scene, scene.done("companies", source=source))[2] == ("", "ambiguous"), (
        "an entry that is gone is no truth"
    )


def lose(scene: Scene, entry: int) -> None:
    with transaction(scene.pool) as connection:
        connection.execute('DELETE FROM register."Companies" WHERE id = %s', [entry])


TWICE = ROWS + "deutsche  LAMPEN,,\n"
"""The last row says the same as the third."""


def test_applying_and_later_jobs_agree_about_an_entry_that_has_changed_or_is_gone(scene: Scene, table: str) -> None:
    declare(scene, table)
    source = scene.file(TWICE)
    job = scene.done("companies", source=source)
    deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA)
    with transaction(scene.pool) as connection:
        connection.execute("""UPDATE register."Companies" SET city = 'Espoo' WHERE id = 4""")
    assert deciding.apply(scene.pool, job.job_key, ADA) == 1
    later = scene.done("companies", source=source)
    for each in (job, later):
        shown = [(row["Id"], row["City"]) for row in scene.grid(each)]
        assert (shown[2], shown[6]) == (("4", "Espoo"), ("4", "Espoo"))
    assert ids(scene, job) == ids(scene, later)
    lose(scene, 4)
    assert deciding.apply(scene.pool, job.job_key, ADA) == 2
    assert deciding.apply(scene.pool, job.job_key, ADA) == 0
    assert ids(scene, job) == ids(scene, scene.done("companies", source=source))
    assert [ids(scene, job)[row] for row in (2, 6)] == [("", "ambiguous")] * 2
    result = scene.job(job.job_key).result
    assert result is not None
    assert {name: count for name, count in result["outcomes"].items() if count} == Counter(scene.outcomes(job))
    deciding.apply(scene.pool, later.job_key, ADA)
    assert ids(scene, later)[2] == ("", "ambiguous"), "the row was never looked up, and waits for a reviewer"


def test_the_same_decision_again_shows_the_entry_as_it_is_now(scene: Scene, table: str) -> None:
    declare(scene, table)
    job = scene.done("companies", source=scene.file(ROWS))
    deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA)
    with transaction(scene.pool) as connection:
        connection.execute("""UPDATE register."Companies" SET city = 'Espoo' WHERE id = 4""")
    deciding.apply(scene.pool, job.job_key, ADA)
    assert not deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA).changed
    assert scene.grid(job)[2]["City"] == "Espoo"


def test_an_entry_that_was_gone_before_decisions_are_applied_is_shown_nowhere(scene: Scene, table: str) -> None:
    declare(scene, table)
    job = scene.done("companies", source=scene.file(TWICE))
    deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA)
    lose(scene, 4)
    assert deciding.apply(scene.pool, job.job_key, ADA) == 1
    assert [ids(scene, job)[row] for row in (2, 6)] == [("", "ambiguous")] * 2


def test_what_was_rejected_beside_an_entry_that_is_gone_stays_rejected(scene: Scene, table: str) -> None:
    declare(scene, table)
    source = scene.file(TWICE)
    job = scene.done("companies", source=source)
    deciding.decide(scene.pool, job.job_key, "000000003", "reject", "2", ADA)
    deciding.decide(scene.pool, job.job_key, "000000003", "accept", "4", ADA)
    lose(scene, 4)
    later = scene.done("companies", source=source)
    deciding.apply(scene.pool, job.job_key, ADA)
    for each in (job, later):
        assert [ids(scene, each)[row] for row in (2, 6)] == [("3", "matched")] * 2


def test_an_entry_that_is_gone_cannot_be_accepted_but_can_be_rejected(scene: Scene, table: str) -> None:
    declare(scene, table)
    job = scene.done("companies", source=scene.file(ROWS))
    lose(scene, 2)
    with pytest.raises(InvalidInput, match="its reference no longer has '2'"):
        deciding.decide(scene.pool, job.job_key, "000000003", "accept", "2", ADA)
    assert deciding.decide(scene.pool, job.job_key, "000000003", "reject", "2", ADA).outcome == "matched"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ('table = "nowhere"', "nowhere has no column 'id'"),
        ('table = "register.Companies"\ndescription = "about"', 'column "about" does not exist'),
        ('file = "/nowhere.csv"', "nowhere.csv"),
        ('table = "job; DROP TABLE job"', "no column 'id'"),
    ],
)
def test_a_wrong_reference_fails_the_job_with_the_reason(scene: Scene, table: str, reference: str, why: str) -> None:
    declare(scene, reference)
    job = scene.submitted("companies", source=scene.file(ROWS))
    with pytest.raises(Exception, match=why):
        planning.plan(scene.pool, job)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"id": "1", "name": "a\\u0000b"}\n', "NUL"),
        ('{"id": "' + "x" * 2_000 + '", "name": "a"}\n', "longer than"),
        ('{"id": "1", "name": "a"}\n{"id":\n', "record 2 cannot be read"),
        ("", "empty"),
    ],
)
def test_a_file_that_is_no_reference_is_refused_whole(scene: Scene, text: str, why: str) -> None:
    declare(scene, f'file = "{scene.file(text, "companies.ndjson")}"')
    job = scene.submitted("companies", source=scene.file(ROWS))
    with pytest.raises(InvalidInput, match=why):
        planning.plan(scene.pool, job)
    with transaction(scene.pool) as connection:
        assert connection.execute("SELECT count(*) FROM reference_file").fetchone() == (0,)


def test_hostile_names_match_nobody_and_stop_nothing(scene: Scene, table: str) -> None:
    declare(scene, table)
    names = ["\u202e", "💥" * 400, "a" * 100_000, "'; DROP TABLE job; --", "{}", "%", "\t", "Nordic Timber Oy"]
    lines = "".join(
        json.dumps({"company": each, "trading_as": None, "country": [1, {"a": 2}]}) + "\n" for each in names
    )
    job = scene.done("companies", source=scene.file(lines, "rows.ndjson"))

    assert job.status is JobState.COMPLETED
    assert [each for each, _ in ids(scene, job)] == ["", "", "", "", "", "", "", "4"]


def test_threads_share_one_index_of_a_reference(scene: Scene, table: str) -> None:
    reference = Reference("register.Companies", "", Columns(("name", "former"), "id"))
    held = Held()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: held.of(scene.pool, reference, f"job {n % 3}"), range(24)))
    assert len({id(each) for each in found}) == 1
