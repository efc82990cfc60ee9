"""Rows are matched with tables and files: evidence, thresholds, one-to-one, doubles, and a reference that changes."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.match import one_to_one
from bulk_pipelines.processing.matching.references import Columns
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines.processing.references.held import Held
from bulk_pipelines.processing.review import deciding
from bulk_pipelines.settings import current, shipped
from bulk_pipelines_tests.scenes.processing import Scene

ADA = Actor("ada", "cli")
RECIPE = """
[recipe.companies]
type = "match"
needs = ["company"]
{options}
variants = [
    {{ name = "name", query = "{{company}}" }},
    {{ name = "trading as", query = "{{trading_as}}" }},
]
columns = [
    {{ header = "Company", input = "company" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "City", answer = "city" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "Why", evidence = "reason" }},
]
row = {{ countries = ["country"] }}

[recipe.companies.reference]
{reference}
id = "id"
names = ["name", "former"]
countries = ["country"]
"""
COMPANIES = """id,name,former,country,city
1,Blue Bottle Coffee Inc,,us,Oakland
2,Deutsche Lampen GmbH,Lampenwerk Ost,de,Jena
3,Deutsche Lampen AG,,at,Wien
4,Nordic Timber Oy,,fi,Turku
"""


def declare(scene: Scene, reference: str, options: str = "") -> None:
    scene.declare(RECIPE.format(reference=reference, options=options))


@pytest.fixture
def table(scene: Scene) -> str:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE SCHEMA register")
        connection.execute(
            'CREATE TABLE register."Companies" (id bigint, name text, former text, country text, city text)'
        )
        with connection.cursor().copy(
            'COPY register."Companies" (id, name, former, country, city) FROM STDIN (FORMAT csv, HEADER)'
        ) as copy:
            copy.write(COMPANIES)
    return 'table = "register.Companies"'


def ids(scene: Scene, job: Job) -> list[tuple[str, str]]:
    return [(row["Id"], row["Outcome"]) for row in scene.grid(job)]


ROWS = """company,trading_as,country
BLUE BOTTLE COFFEE,,
Deutsche Lampen,,AT
Deutsche Lampen,,
Lampenwerk,Lampenwerk Ost,
Nobody at all,,
,,de
"""


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


def test_no_entry_is_matched_twice_if_the_recipe_says_so(scene: Scene, table: str) -> None:
    rows = "company,trading_as,country\nBlue Bottle Coffee,,\nBlue Bottle Coffee Inc,,us\nNordic Timber,,\n"
    declare(scene, table)
    assert [each for each, _ in ids(scene, scene.done("companies", source=scene.file(rows)))] == ["1", "1", "4"]
    declare(scene, table, "one_to_one = true")
    job = scene.done("companies", source=scene.file(rows))

    assert ids(scene, job) == [("", "no match"), ("1", "matched"), ("4", "matched")]
    assert scene.grid(job)[0]["Why"].startswith("a surer row is matched with 1")
    assert job.result is not None
    assert job.result["outcomes"] == {"matched": 2, "no match": 1}
    deciding.decide(scene.pool, job.job_key, "000000001", "reject", "1", ADA)
    deciding.decide(scene.pool, job.job_key, "000000001", "open", None, ADA)
    assert ids(scene, job)[0] == ("", "no match"), "what was taken stays taken"
    told = deciding.decide(scene.pool, job.job_key, "000000001", "accept", "1", ADA)
    assert told.outcome == "matched", "a reviewer knows better"


def test_who_loses_an_entry_gets_the_next_best_that_is_free(scene: Scene) -> None:
    companies = "id,name,former,country,city\n1,Acme Lamps,,us,\n2,Acme Lamp,,us,\n"
    declare(scene, f'file = "{scene.file(companies, "c.csv")}"', "one_to_one = true\nthreshold = 0.2\nmargin = 0.0")
    rows = "company,trading_as,country\nAcme Lamps,,us\nAcme Lamps,,\n"
    job = scene.done("companies", source=scene.file(rows))

    assert ids(scene, job) == [("1", "matched"), ("2", "matched")]


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


def test_one_to_one_comes_to_the_same_wherever_it_was_cut_short(scene: Scene, monkeypatch: Any) -> None:
    """The oracle settles one claim after the other, each with the surest row that asks for its entry."""
    names = [f"{first} {second}" for first in ("Acme", "Nordic", "Blue") for second in ("Lamps", "Timber", "Coffee")]
    companies = "id,name,former,country,city\n" + "".join(f"{n},{name},,,\n" for n, name in enumerate(names))
    rows = "company,trading_as,country\n" + "".join(
        f"{name}{end},,\n" for name in names for end in ("", " Co", "s", " Shop")
    )
    declare(scene, f'file = "{scene.file(companies, "c.csv")}"', "one_to_one = true\nthreshold = 0.05\nmargin = 0.0")
    source = scene.file(rows)
    whole = scene.done("companies", source=source)
    job = scene.planned("companies", source=source)
    monkeypatch.setattr(one_to_one, "AT_A_TIME", 1)
    scene.worked(job)

    assert scene.grid(job) == scene.grid(whole)
    matched = [row["Id"] for row in scene.grid(job) if row["Id"]]
    assert len(matched) == len(set(matched)) == len(names)
    assert matched_by_hand(scene, job) == {row["Id"]: row["Company"] for row in scene.grid(job) if row["Id"]}


def matched_by_hand(scene: Scene, job: Job) -> dict[str, str]:
    """Return which row gets each entry: free rows ask for the best entry that has not refused them, until none asks."""
    wishes = {}
    for row in scene.rows(job):
        assert row.result is not None
        evidence = row.result["evidence"]
        wishes[row.item_key] = [(each["id"], each["score"]) for each in evidence["candidates"]]
    held: dict[str, tuple[float, str]] = {}
    asking = dict.fromkeys(wishes, 0.0)  # the share of what has refused the row
    while asking:
        key, gone = asking.popitem()
        if not wishes[key]:
            continue
        entry, first = wishes[key].pop(0)
        score = round(first / (1 - gone), 4) if gone else first
        if score < 0.05:
            continue
        rival = held.get(entry)
        if rival is None or (-score, key) < (-rival[0], rival[1]):
            held[entry] = (score, key)
            if rival is not None:
                lost = [each for each in first_wishes(scene, job, rival[1]) if each not in wishes[rival[1]]]
                asking[rival[1]] = sum(each[1] for each in lost)
        else:
            asking[key] = gone + first
    inputs = {row.item_key: row.input["company"] for row in scene.rows(job)}
    return {entry: inputs[key] for entry, (_, key) in held.items()}


def first_wishes(scene: Scene, job: Job, key: str) -> list[tuple[str, float]]:
    (row,) = [each for each in scene.rows(job) if each.item_key == key]
    assert row.result is not None
    return [(each["id"], each["score"]) for each in row.result["evidence"]["candidates"]]


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
