"""Rows matched with Wikidata, over a server that speaks its interfaces and keeps its limits."""

import json
from collections import Counter

import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.wikidata import asked, declare, found
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia


def test_names_of_all_kinds(scene: Scene, wiki: Wikimedia) -> None:
    names = [
        ("Acme Widgets", "matched", "Q1", "exact"),
        ("ACME WIDGETS", "matched", "Q1", "exact"),
        ('"Acme Widgets, Inc."', "matched", "Q1", "legal form stripped"),
        ("Acme Ltd of Springfield", "matched", "Q1", "exact"),
        ("BMW", "matched", "Q4", "exact"),
        ("Газпром", "matched", "Q8", "exact"),
        ("Zorgon Industries", "matched", "Q9", "exact"),
        ("Qwertz Nobody", "no match", "", ""),
        ("Twin", "ambiguous", "", "exact"),
        ("", "skipped", "", ""),
    ]
    with wiki.server() as server:
        declare(scene, server)
        job = scene.done("things", source=scene.file("name\n" + "".join(f"{each[0]}\n" for each in names) + "Twin\n"))
        requests = Counter(map(asked, server.calls))
        assert server.refused == 0
    rows = scene.grid(job)[:-1]
    assert [(row["Outcome"], row["Id"]) for row in rows if row["Name"]] == [each[1:3] for each in names if each[0]]
    assert {row["Name"]: row["Variant"] for row in rows if row["Outcome"] == "matched"} == {
        each[0].strip('"'): each[3] for each in names if each[1] == "matched"
    }
    assert rows[0]["Site"] == "https://acme.example/"
    assert requests["altLabel"] == requests["pageprops"] == 1
    assert sum(requests.values()) <= 7, "ten rows share their requests"
    evidence = (scene.rows(job)[8].result or {})["evidence"]
    assert {each["id"] for each in evidence["candidates"]} == {"Q10", "Q11"}
    assert {"asked", "found", "trigrams"} <= set(evidence["candidates"][0]["features"])


def test_other_columns_tell_equal_names_apart(scene: Scene, wiki: Wikimedia) -> None:
    recipe = """
types = ["Q4830453", "Q5"]
country = "{country}"
properties = [{ property = "P569", value = "{born}" }]
"""
    rows = "name,country,born\nAda Lovelace,,1815\nAda Lovelace,,1990-01-02\nSpringfield,US,\n"
    with wiki.server() as server:
        declare(scene, server, recipe)
        assert [each[:2] for each in found(scene, rows)] == [("matched", "Q2"), ("matched", "Q3"), ("matched", "Q7")]
        requests = Counter(map(asked, server.calls))
    assert requests["P279"] == 2, "a class below business is one, too"
    assert requests["P297"] == 1


def test_identifiers_come_first(scene: Scene, wiki: Wikimedia) -> None:
    recipe = 'identifiers = [{ property = "P1278", value = "{lei}" }]'
    rows = "name,lei\nsome other name,LEI7\nTwin,LEI11\nwhoever,LEI12\nAcme Widgets,LEI99\n,LEI10\n"
    with wiki.server() as server:
        declare(scene, server, recipe)
        assert found(scene, rows) == [
            ("matched", "Q7", "P1278"),
            ("matched", "Q11", "P1278"),
            ("ambiguous", "", "P1278"),
            ("matched", "Q1", "exact"),
            ("matched", "Q10", "P1278"),
        ]


def test_an_item_that_was_merged_is_the_one_that_it_is_now(scene: Scene) -> None:
    wiki = Wikimedia([Item("Q5000", "Merged Goods", "shop")], merged={"Q77": "Q5000"})
    wiki.named["Merged Goods"] = ["Q77", "Q5000"]
    with wiki.server() as server:
        declare(scene, server)
        assert found(scene, "name\nMerged Goods\n")[0][:2] == ("matched", "Q5000")


def test_a_second_try_searches_each_row_alone(scene: Scene, wiki: Wikimedia) -> None:
    """Words in another order are no phrase; the second try finds them, and says by which variant."""
    with wiki.server() as server:
        declare(scene, server)
        assert found(scene, "name\nIndustries Zorgon North\n")[0][0] == "no match"
    with wiki.server() as server:
        declare(scene, server, tries=2)
        job = scene.done("things", source=scene.file("name\nIndustries Zorgon North\n"))
    assert scene.rows(job)[0].attempt_count == 2
    assert scene.grid(job)[0]["Outcome"] in ("matched", "ambiguous")
    evidence = (scene.rows(job)[0].result or {})["evidence"]
    assert evidence["candidates"][0]["id"] == "Q9"


@pytest.mark.parametrize("contact", ["", "nobody"])
def test_nothing_runs_without_a_contact(scene: Scene, wiki: Wikimedia, contact: str) -> None:
    with wiki.server() as server:
        declare(scene, server, contact=contact)
        with pytest.raises(InvalidInput, match="BULK_CONTACT"):
            library.load(current()).to_run("things")
        if not contact:
            scene.monkeypatch.setenv("BULK_CONTACT", "data@example.org")
            assert found(scene, "name\nAcme Widgets\n")[0][:2] == ("matched", "Q1")
            assert {call.headers["User-Agent"] for call in server.calls} == {"bulk-pipelines (data@example.org)"}


def test_providers_of_one_house_share_a_limit_or_are_refused(scene: Scene, wiki: Wikimedia) -> None:
    with wiki.server() as server:
        declare(scene, server)
        providers = library.load(current()).providers
        names = {providers[each].limit.name for each in ("wikidata", "wikidata-query", "wikipedia-en")}
        assert len(names) == 1
        assert providers["commons"].limit.name in names
        text = (scene.recipes / "shop.toml").read_text()
        scene.declare(text.replace("per_minute = 200", "per_minute = 500", 1))
        with pytest.raises(InvalidInput, match="shares 'wikimedia'"):
            library.load(current())


def test_equal_rows_and_a_second_job_ask_once(scene: Scene, wiki: Wikimedia) -> None:
    with wiki.server() as server:
        declare(scene, server)
        found(scene, "name\n" + "Acme Widgets\nQwertz Nobody\n" * 20)
        before = len(server.calls)
        assert before <= 5
        assert found(scene, "name\nAcme Widgets\nQwertz Nobody\n")[0][:2] == ("matched", "Q1")
        assert len(server.calls) == before


HOSTILE = [
    'a"b',
    "x|y",
    "a\\",
    "} } #",
    "' OR '1",
    "\u0085\u2028",
    "a" * 5_000,
    "#",
    "\U0001f600",
    "-!~*?",
    "haswbstatement:P31=Q5",
]


def test_names_that_mean_something_to_an_interface_are_only_names(scene: Scene, wiki: Wikimedia) -> None:
    rows = "".join(json.dumps({"name": each}) + "\n" for each in [*HOSTILE, "Acme Widgets"])
    with wiki.server() as server:
        declare(scene, server)
        job = scene.done("things", source=scene.file(rows, "rows.ndjson"))
    outcomes = [row["Outcome"] for row in scene.grid(job)]
    assert outcomes[-1] == "matched"
    assert set(outcomes[:-1]) <= {"no match", "skipped", "ambiguous"}, [row["Why"] for row in scene.grid(job)]
