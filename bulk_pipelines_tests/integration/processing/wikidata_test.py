"""Rows matched with Wikidata, over a server that speaks its interfaces and keeps its limits."""

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia

RECIPE = """
[provider.wikidata]
address = "{address}w/"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
answer_seconds = 5
break_after = 0
{provider}

[provider.wikidata-query]
address = "{address}"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
answer_seconds = 5
break_after = 0
{provider}

[provider.wikipedia-en]
address = "{address}en/w/"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
answer_seconds = 5
break_after = 0
{provider}

[recipe.things]
type = "wikidata"
titles = ["wikipedia-en"]
attempts = 3
not_found_attempts = 1
{recipe}
variants = [
    {{ name = "exact", query = "{{name}}" }},
    {{ name = "legal form stripped", query = "{{name}}", form = "stripped" }},
    {{ name = "comma-inverted", query = "{{name}}", form = "inverted" }},
    {{ name = "transliterated", query = "{{name}}", form = "transliterated" }},
    {{ name = "acronym", query = "{{name}}", form = "acronym" }},
]
columns = [
    {{ header = "Name", input = "name" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "By", evidence = "provider" }},
    {{ header = "Site", answer = "P856" }},
    {{ header = "About", answer = "description" }},
    {{ header = "Why", evidence = "reason" }},
]
"""

HUMAN, BUSINESS, BANK, CITY = "Q5", "Q4830453", "Q22687", "Q515"
ITEMS = [
    Item("Q1", "Acme Widgets", "maker of widgets", claims={"P31": [BUSINESS], "P856": ["https://acme.example/"]}),
    Item("Q2", "Ada Lovelace", "English mathematician", claims={"P31": [HUMAN], "P569": ["+1815-12-10"]}),
    Item("Q3", "Ada Lovelace", "Scottish singer", claims={"P31": [HUMAN], "P569": ["+1990-01-02"]}),
    Item("Q4", "Bayerische Motoren Werke", "car maker", ("BMW",), {"P31": [BUSINESS], "P17": ["Q183"]}),
    Item("Q6", "Springfield", "city in Illinois", claims={"P31": [CITY], "P17": ["Q30"]}),
    Item("Q7", "Springfield", "bank of Springfield", claims={"P31": [BANK], "P17": ["Q30"], "P1278": ["LEI7"]}),
    Item("Q8", "Gazprom", "energy company", ("Газпром",), {"P31": [BUSINESS], "P17": ["Q159"]}),
    Item("Q9", "Zorgon Industries of the North", "mining company", claims={"P31": [BUSINESS]}),
    Item("Q10", "Twin", "company in Berlin", claims={"P1278": ["LEI10"]}),
    Item("Q11", "Twin", "company in Paris", claims={"P1278": ["LEI11", "LEI12"]}),
    Item("Q12", "Other", "company", claims={"P1278": ["LEI12"]}),
    Item(BANK, "bank", "kind of business", claims={"P279": [BUSINESS]}),
    Item("Q183", "Germany", claims={"P297": ["DE"]}),
    Item("Q30", "United States", claims={"P297": ["US"]}),
]
REDIRECTS = {"Acme Ltd of Springfield": "Acme Widgets"}


@pytest.fixture
def wiki() -> Wikimedia:
    return Wikimedia(ITEMS, REDIRECTS)


def declare(
    scene: Scene, server: ProviderServer, recipe: str = "", provider: str = "", contact: str = "a@b.org", tries: int = 1
) -> None:
    text = RECIPE.replace("not_found_attempts = 1", f"not_found_attempts = {tries}")
    scene.declare(text.format(address=server.url, recipe=recipe, provider=provider, contact=contact))


def asked(call: Call) -> str:
    """Say what a request asks for."""
    body = call.body.decode()
    for sign in ("wbgetentities", "generator=search", "pageprops", "altLabel", "P279", "P297", "P1278"):
        if sign in body:
            return sign
    return body


def found(scene: Scene, text: str) -> list[tuple[str, str, str]]:
    job = scene.done("things", source=scene.file(text))
    return [(row["Outcome"], row["Id"], row["Variant"]) for row in scene.grid(job)]


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


def refusing(wiki: Wikimedia, when: Callable[[Call], bool], said: Any, times: int = 10_000) -> Callable[[Call], Any]:
    left = [times]

    def answer(call: Call) -> Any:
        if when(call) and left[0]:
            left[0] -= 1
            return said
        return wiki.answer(call)

    return answer


@pytest.mark.parametrize(
    "wrong",
    [
        Said(b"<html>nginx</html>", 200),
        Said({}, 500),
        Said({}, 429, {"Retry-After": "1"}),
        {"error": {"code": "maxlag", "info": "lagged", "lag": 7}},
        {"error": {"code": "internal_api_error", "info": "x"}},
        {"entities": []},
        {"entities": {"Q1": {"id": 5}}},
        {"entities": {"Q1": {"id": "Q1", "labels": [5]}}},
        {"entities": {"Q1": {"id": "Q1", "labels": {"en": {"value": 7}}}}},
        {"entities": {"Q1": {"id": "Q1", "claims": {"P31": [5]}}}},
        [],
    ],
)
def test_a_provider_that_errs_and_then_changes_its_mind(scene: Scene, wiki: Wikimedia, wrong: Any) -> None:
    answer = refusing(wiki, lambda call: asked(call) == "wbgetentities", wrong, 1)
    with ProviderServer(answer) as server:
        declare(scene, server, provider="patience = 0")
        job = scene.done("things", source=scene.file("name\nAcme Widgets\nQwertz Nobody\n"))
        assert Counter(map(asked, server.calls))["wbgetentities"] >= 2, "the first answer was none"
    assert [row["Outcome"] for row in scene.grid(job)] == ["matched", "no match"]


@pytest.mark.parametrize("part", ["altLabel", "pageprops", "generator=search", "wbgetentities"])
@pytest.mark.parametrize("wrong", [Said({}, 500), {"query": {"pages": {"1": {}}}, "results": 5, "entities": 5}])
def test_whoever_is_down_for_good_lets_the_others_match(scene: Scene, wiki: Wikimedia, part: str, wrong: Any) -> None:
    """What is found without him is matched; what is not found is no "no match", because not everybody was asked."""
    with ProviderServer(refusing(wiki, lambda call: asked(call) == part, wrong)) as server:
        declare(scene, server)
        job = scene.done("things", source=scene.file("name\nAcme Widgets\nQwertz Nobody\n"))
    outcomes = [row["Outcome"] for row in scene.grid(job)]
    assert outcomes == ["matched", "no match" if part == "wbgetentities" else "failed"]
    faults = (scene.rows(job)[0].result or {})["evidence"]["faults"]
    assert bool(faults) is (part in ("altLabel", "wbgetentities")), "who is matched already is not asked about"


def test_rows_of_a_common_name_do_not_starve_those_that_share_their_search(scene: Scene) -> None:
    items = [Item(f"Q{number}", f"Common Place {number}", "place") for number in range(1, 200)]
    items.append(Item("Q900", "Gronkfurt an der Wupp", "town"))
    wiki = Wikimedia(items)
    with wiki.server() as server:
        declare(scene, server)
        rows = found(scene, "name\nCommon Place\nGronkfurt an der\n")
        assert rows[1][:2] == ("matched", "Q900")
        assert rows[0][0] == "ambiguous"


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


def spoiled(value: Any, chance: random.Random) -> Any:
    """Return an answer with some of its parts gone, or something else."""
    value = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        for key in list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ():
            places.append((inner, key))
            walk(inner[key])

    walk(value)
    for holder, key in chance.choices(places, k=chance.choice([1, 1, 3])) if places else ():
        with suppress(KeyError, IndexError):
            holder[key] = chance.choice([None, [], {}, "x", -1, 1e308, True, [[]], {"a": 1}, "Q1", "Q1" * 400])
    return value


def test_answers_that_are_wrong_at_random_cost_a_try_and_nothing_else(scene: Scene, wiki: Wikimedia) -> None:
    chance = random.Random(7)
    names = [each.label for each in ITEMS] + [f"{each.label} Inc" for each in ITEMS] + ["Nobody"]

    def answer(call: Call) -> Any:
        said = wiki.answer(call)
        return spoiled(said, chance) if isinstance(said, dict) and chance.random() < 0.7 else said

    with ProviderServer(answer) as server:
        declare(scene, server)
        classes = set()
        for number in range(6):
            rows = "".join(f"{name} {number if name == 'Nobody' else ''}\n" for name in names)
            job = scene.done("things", source=scene.file("name\n" + rows))
            classes |= {row.error_class for row in scene.rows(job)}
            with transaction(scene.pool) as connection:
                connection.execute("DELETE FROM provider_answer")
    assert classes <= {None, "transient", "not_found"}, "none of our own code broke"
    assert "transient" in classes
