"""Answers in the shapes of the Reconciliation API, written out by hand."""

import json
from typing import Any

import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.entries import Entry
from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.index import Index, build
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.serving import draft, stable, suggesting

ENTRIES = [
    Entry("1", ("Springfield",), "city in Illinois", ("city", "place"), ("us",)),
    Entry("2", ("Springfield",), "Spanish clothing chain", ("brand",), ("es",)),
    Entry("3", ("Springfield Armory",), "firearms maker", ("brand", "company"), ("us",)),
    Entry("Q4", ("Bauhaus",), "DIY chain", (), ("de",), ("https://www.bauhaus.info",)),
]


@pytest.fixture(scope="module")
def index() -> Index:
    return build(ENTRIES)


def asked(index: Index, **query: Any) -> list[dict[str, Any]]:
    result = stable.answer(index, {"q0": query})["q0"]["result"]
    assert isinstance(result, list)
    return result


def test_a_batch_is_answered_query_by_query(index: Index) -> None:
    answer = stable.answer(index, {"q0": {"query": "bauhaus"}, "q1": {"query": "no such thing"}})

    assert answer["q1"] == {"result": []}
    (found,) = answer["q0"]["result"]
    features = found.pop("features")
    assert found.pop("score") > 50
    assert found == {"id": "Q4", "name": "Bauhaus", "description": "DIY chain", "type": [], "match": True}
    assert [each["id"] for each in features] == list(FEATURES)
    assert json.loads(json.dumps(answer)) == answer


def test_an_ambiguous_query_has_candidates_and_no_match(index: Index) -> None:
    found = asked(index, query="Springfield")

    assert {each["id"] for each in found} >= {"1", "2"}
    assert not any(each["match"] for each in found)
    assert found[0]["type"] in (
        [{"id": "city", "name": "city"}, {"id": "place", "name": "place"}],
        [{"id": "brand", "name": "brand"}],
    )


@pytest.mark.parametrize("value", ["es", ["es"], {"id": "es"}, [{"id": "x", "name": "es"}]])
def test_properties_are_evidence(index: Index, value: object) -> None:
    found = asked(index, query="Springfield", properties=[{"pid": "country", "v": value}, {"pid": "P17", "v": True}])

    assert [each["id"] for each in found if each["match"]] == ["2"]


@pytest.mark.parametrize(
    ("types", "strict", "ids"),
    [
        ("brand", None, {"2", "3"}),
        (["city", "company"], "any", {"1", "3"}),
        (["brand", "company"], "all", {"3"}),
        (["river"], "any", set()),
        (["river"], "should", {"1", "2"}),
    ],
)
def test_types_choose_among_the_candidates(index: Index, types: object, strict: str | None, ids: set[str]) -> None:
    found = asked(index, query="Springfield", type=types, **({"type_strict": strict} if strict else {}))

    assert {each["id"] for each in found} <= ids | ({"3"} if strict == "should" else set())
    assert ids - {"3"} <= {each["id"] for each in found}


def test_a_limit_is_kept(index: Index) -> None:
    assert len(asked(index, query="Springfield", limit=1)) == 1


@pytest.mark.parametrize(
    "batch",
    [
        [],
        "text",
        None,
        {"q": []},
        {"q": {}},
        {"q": {"query": 5}},
        {"q": {"query": "a", "limit": 0}},
        {"q": {"query": "a", "limit": True}},
        {"q": {"query": "a", "limit": float("nan")}},
        {"q": {"query": "a", "type_strict": "maybe"}},
        {"q": {"query": "a", "properties": "x"}},
        {"q": {"query": "a", "properties": [{"pid": "country"}]}},
        {"q": {"query": "a", "properties": [5]}},
        {str(number): {"query": "a"} for number in range(1001)},
    ],
)
def test_what_is_no_batch_is_refused(index: Index, batch: object) -> None:
    with pytest.raises(InvalidInput):
        stable.answer(index, batch)


def test_entities_are_suggested_by_prefix_part_and_id(index: Index) -> None:
    def ids(prefix: str, cursor: int = 0) -> list[str]:
        return [each["id"] for each in suggesting.suggest(index, "entity", prefix, cursor, {})["result"]]

    assert ids("spring") == ["1", "2", "3"]
    assert ids("spring", 1) == ["2", "3"]
    assert ids("ARMORY") == ["3"]
    assert ids("Q4") == ["Q4"]
    assert ids("") == ids(" ") == ids("%") == ids(".*") == []
    assert suggesting.suggest(index, "entity", "Q4", 0, {})["result"] == [
        {"id": "Q4", "name": "Bauhaus", "description": "DIY chain", "notable": []}
    ]


def test_types_and_properties_are_suggested(index: Index) -> None:
    assert suggesting.suggest(index, "type", "C", 0, {}) == {
        "result": [
            {"id": "city", "name": "city"},
            {"id": "company", "name": "company"},
            {"id": "place", "name": "place"},
        ]
    }
    assert suggesting.suggest(index, "property", "count", 0, {"head": "head count"}) == {
        "result": [{"id": "country", "name": "Country"}, {"id": "head", "name": "head count"}]
    }


def test_an_empty_reference_answers_too() -> None:
    index = build([])

    assert stable.answer(index, {"q": {"query": "a"}}) == {"q": {"result": []}}
    assert (
        suggesting.suggest(index, "entity", "a", 0, {})
        == suggesting.suggest(index, "type", "a", 0, {})
        == {"result": []}
    )


def drafted(index: Index, *conditions: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    batch = {"queries": [{"conditions": list(conditions), **query}]}
    (result,) = draft.answer(index, batch, Model.standard())["results"]
    found: list[dict[str, Any]] = result["candidates"]
    return found


def named(text: str) -> dict[str, Any]:
    return {"matchType": "name", "propertyValue": text}


def having(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"matchType": "property", "propertyId": name, "propertyValue": value, **more}


def test_the_draft_finds_what_the_stable_version_finds(index: Index) -> None:
    assert drafted(index, named("Springfield")) == asked(index, query="Springfield")
    evident = drafted(index, named("Springfield"), having("country", "es"))
    assert [each["id"] for each in evident if each["match"]] == ["2"]
    assert {each["id"] for each in drafted(index, named("Springfield"), type="company")} == {"3"}


def test_the_draft_asks_for_ids_and_requires_properties(index: Index) -> None:
    (entry,) = drafted(index, {"matchType": "id", "propertyValue": "Q4"})
    assert (entry["name"], entry["match"]) == ("Bauhaus", True)
    assert drafted(index, {"matchType": "id", "propertyValue": "Q5"}) == []
    assert {each["id"] for each in drafted(index, named("Springfield"), having("country", "es", required=True))} == {
        "2"
    }
    assert {each["id"] for each in drafted(index, named("Springfield"), having("type", "place", required=True))} == {
        "1"
    }


@pytest.mark.parametrize(
    "batch",
    [
        {},
        [],
        {"queries": {}},
        {"queries": [[]]},
        {"queries": [{"query": "a"}]},
        {"queries": [{"conditions": []}]},
        {"queries": [{"conditions": [{"matchType": "name"}]}]},
        {"queries": [{"conditions": [{"propertyValue": "a"}]}]},
        {"queries": [{"conditions": [{"matchType": "property", "propertyValue": "a"}]}]},
        {"queries": [{"conditions": [named("a") | {"matchQuantifier": "none"}]}]},
        {"queries": [{"conditions": [named("a")], "type": ["b"]}]},
        {"queries": [{"conditions": [named("a")], "limit": -1}]},
        {"queries": [{"conditions": [having("description", "x", required=True)]}]},
        {"queries": [{"conditions": [named("a")]}] * 1001},
    ],
)
def test_what_is_no_batch_of_the_draft_is_refused(index: Index, batch: object) -> None:
    with pytest.raises(InvalidInput):
        draft.answer(index, batch, Model.standard())
