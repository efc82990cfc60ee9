"""Wikidata's interfaces when they refuse, err or are down: a row is tried again, and the others are matched."""

import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.wikidata import ITEMS, asked, declare, found
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said
from bulk_pipelines_tests.servers.wikimedia_server import Item, Wikimedia


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
