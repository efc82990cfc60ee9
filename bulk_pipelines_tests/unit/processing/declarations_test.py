"""Declarations that people write: what is wrong is told with its place, and what is right comes out as it was meant."""

import copy
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.engine.rate_limit import Window
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing import types
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.recipes import library, templates
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.results import Candidate, Finding, Origin, Outcome, judged
from bulk_pipelines.settings import CHECKOUT, Settings

GIVEN: dict[str, Any] = {
    "provider": {"shop": {"address": "https://shop.example/v1", "per_second": 5, "per_minute": 0.5}},
    "recipe": {
        "products": {
            "type": "lookup",
            "variants": [{"name": "a", "query": "{title}"}, {"name": "b", "query": "{brand}"}],
            "asks": [{"provider": "shop", "path": "x/{title}", "answer": {"price": "$.price"}}],
            "columns": [{"header": "Price", "answer": "price"}],
        }
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the declarations with one thing changed; the path has dots, and numbers for lists."""
    given = copy.deepcopy(GIVEN)
    *parents, last = path.split(".")
    place: Any = given
    for each in parents:
        place = place[int(each)] if isinstance(place, list) else place[each]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return given


def checked(given: dict[str, Any]) -> tuple[dict[str, Recipe], dict[str, Provider]]:
    recipes, providers = library.parsed(given)
    for recipe in recipes.values():
        types.find(recipe.type).check(recipe, providers)
    return recipes, providers


def test_what_is_right() -> None:
    recipes, providers = checked(GIVEN)
    assert providers["shop"].address == "https://shop.example/v1/"
    assert providers["shop"].windows == (Window(5, 1.0), Window(1, 120.0))
    assert recipes["products"].inputs == {"title", "brand"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("provider.shop.adress", "x", "adress: is not known"),
        ("provider.shop.address", "ftp://x/", "no address of a web server"),
        ("provider.shop.address", "https://me:secret@x/", "holds a password"),
        ("provider.shop.address", "https://x/?q=1", "query"),
        ("provider.shop.at_once", 0, "at_once: 0 is not from 1"),
        ("provider.shop.at_once", 1.5, "whole number"),
        ("provider.shop.at_once", True, "not a number"),
        ("provider.shop.per_second", 2.5, "neither a whole number nor below 1"),
        ("provider.shop.headers", {"Host": "x"}, "Host"),
        ("provider.shop.headers", {"X": "a\r\nY: b"}, "printable"),
        ("provider.shop.contact", "ä", "ASCII"),
        ("provider.Shop", {"address": "https://x/"}, "no name"),
        ("provider.shop.throttled", ["x"], "throttled"),
        ("recipe.products.type", "magic", "no type of recipe 'magic'"),
        ("recipe.products.variants", [], "variants: is missing"),
        ("recipe.products.variants.0.query", "{title", "single {"),
        ("recipe.products.variants.0.query", "{}", "without the name"),
        ("recipe.products.variants.1.name", "a", "the same name"),
        ("recipe.products.threshold", 90, "threshold: 90 is not from 0 to 1"),
        ("recipe.products.columns.0", {"header": "x"}, "names one of"),
        ("recipe.products.columns.0", {"header": "x", "evidence": "y"}, "there is no 'y'"),
        ("recipe.products.columns.0", {"header": "x", "answer": "size"}, "which no answer has"),
        ("recipe.products.asks", [], "asks: is missing"),
        ("recipe.products.asks.0.provider", "nobody", "'nobody' is not declared"),
        ("recipe.products.asks.0.path", "https://other/", "relative"),
        ("recipe.products.asks.0.body", {"q": 1}, "goes with the method POST"),
        ("recipe.products.asks.0.score", "score[", "no JSONPath"),
        ("recipe.products.asks.0.compare", True, "needs the name"),
        ("recipe.products.asks.0.methd", "GET", "methd: is not known"),
        ("recipe.products.extra", 1, "extra: is not known"),
        ("something", {}, "something: is not known"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(path: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as found:
        checked(changed(path, value))
    assert said in str(found.value)


def test_attempts_begin_with_other_variants() -> None:
    recipe = checked(GIVEN)[0]["products"]
    assert [each.name for each in recipe.variants_of(1)] == ["a", "b"]
    assert [each.name for each in recipe.variants_of(2)] == ["b", "a"]
    one = checked(changed("recipe.products.per_try", 1))[0]["products"]
    assert [[each.name for each in one.variants_of(n)] for n in (1, 2, 3)] == [["a"], ["b"], ["a"]]
    assert [each.name for each in one.variants_of(1, ("b",))] == ["b"]


@pytest.mark.parametrize(
    ("template", "row", "text"),
    [
        ("{a} and {b}", {"a": "x", "b": 5}, "x and 5"),
        ("{a} and {b}", {"a": "x", "b": " "}, None),
        ("{a}", {}, None),
        ("{{a}} {a}", {"a": "{b}"}, "{a} {b}"),
        ("plain", {}, "plain"),
        ("{a}", {"a": True}, "true"),
    ],
)
def test_templates(template: str, row: dict[str, Any], text: str | None) -> None:
    assert templates.filled(template, row) == text


ORIGIN = Origin("a", "shop")


def found(*scores: float | None, **changes: Any) -> Finding:
    given = copy.deepcopy(GIVEN)
    given["recipe"]["products"] |= {"threshold": 0.8, "margin": 0.1, "floor": 0.2} | changes
    recipe = checked(given)[0]["products"]
    return judged(recipe, [Candidate(str(n), str(n), score) for n, score in enumerate(scores)], ORIGIN)


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ((), Outcome.NO_MATCH),
        ((0.1,), Outcome.NO_MATCH),
        ((0.8,), Outcome.MATCHED),
        ((0.79,), Outcome.AMBIGUOUS),
        ((0.5, 0.95), Outcome.MATCHED),
        ((0.95, 0.9), Outcome.AMBIGUOUS),
        ((0.95, 0.1), Outcome.MATCHED),
        ((None,), Outcome.MATCHED),
        ((None, None), Outcome.AMBIGUOUS),
    ],
)
def test_candidates_are_judged(scores: tuple[float | None, ...], outcome: Outcome) -> None:
    assert found(*scores).outcome is outcome


def test_equal_scores_are_never_a_match() -> None:
    assert found(0.9, 0.9, margin=0.0).outcome is Outcome.AMBIGUOUS


def test_the_samples_of_the_docs_are_right() -> None:
    samples = sorted((CHECKOUT / "docs" / "samples" / "recipes").glob("*.toml"))
    found = library.load(Settings(home=CHECKOUT / "nowhere" / ".bulk"), samples)
    assert {"companies", "people", "product-pictures", "licences", "wikidata", "image"} <= set(found.recipes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"types": ["business"]}, "no id of an item"),
        ({"languages": ["English"]}, "no code of a language"),
        ({"identifiers": [{"property": "LEI", "value": "{lei}"}]}, "no id of a property"),
        ({"identifiers": [{"property": "P1278", "value": "{lei}"}], "sparql": ""}, "looked up by SPARQL"),
        ({"titles": ["nobody"]}, "not declared"),
        ({"variants": []}, "is missing"),
        ({"variants": [{"name": "a", "query": "{a}", "form": "upper"}]}, "none of written"),
        ({"columns": [{"header": "a", "answer": "site"}]}, "properties by their ids"),
        ({"near": 4}, "not known"),
    ],
)
def test_what_is_wrong_with_a_recipe_for_wikidata(changes: dict[str, Any], said: str) -> None:
    given = {"type": "wikidata", "variants": [{"name": "a", "query": "{a}"}], **changes}
    providers = {name: Provider(name, "https://x.example/") for name in ("wikidata", "wikidata-query")}
    with pytest.raises(InvalidInput, match=said):
        types.find("wikidata").check(Recipe.parse("x", given), providers)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"thumbnail_format": "svg"}, "none of jpeg"),
        ({"near": 40}, "not from -1 to 16"),
        ({"title": "{t}", "commons": "nobody"}, "not declared"),
        ({"reference": {"table": "a"}}, "id: is missing"),
        ({"columns": [{"header": "a", "answer": "gps"}]}, "there is no 'gps'"),
        ({"image": "{a"}, "single {"),
    ],
)
def test_what_is_wrong_with_a_recipe_for_pictures(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        types.find("image").check(Recipe.parse("x", {"type": "image", **changes}), {})


def test_packages_bring_recipes_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping, or a function that returns one. A file of one's own takes the place of what a package brings."""
    told = tmp_path / "others-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    points = "[bulk_pipelines.recipes]\nmade = others:made\nplain = others:PLAIN\n"
    (told / "entry_points.txt").write_text(points)
    (tmp_path / "others.py").write_text(
        'PLAIN = {"provider": {"theirs": {"address": "https://theirs.example/"}}}\n'
        "def made():\n"
        '    asks = [{"provider": "theirs", "path": "x"}]\n'
        '    variants = [{"name": "n", "query": "{n}"}]\n'
        '    recipe = {"type": "lookup", "says": "theirs", "variants": variants, "asks": asks}\n'
        '    return {"recipe": {"theirs": recipe}}\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = Settings(home=tmp_path / ".bulk", recipes_folder=str(tmp_path / "recipes"))
    found = library.load(chosen)
    assert (found.recipe("theirs").says, found.places["theirs"]) == ("theirs", "others:made")
    assert found.providers["theirs"].address == "https://theirs.example/"
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(
        "recipe: {theirs: {type: lookup, says: mine, variants: [{name: n, query: '{n}'}], asks: [{provider: theirs}]}}"
    )
    assert library.load(chosen).recipe("theirs").says == "mine"
