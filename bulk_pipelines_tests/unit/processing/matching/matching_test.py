"""Verdicts on queries against a small reference."""

from dataclasses import replace

import pytest

from bulk_pipelines.processing.matching import index as indexes
from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.index import Index, build
from bulk_pipelines.processing.matching.matching import match
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.results import Result, Verdict

ENTRIES = [
    Entry("1", ("Bauhaus",), "DIY store chain in Germany", ("retailer",), ("de",), ("https://www.bauhaus.info",)),
    Entry("2", ("Papa Gino's",), "US pizzeria chain", (), ("us",), ("https://www.papaginos.com",)),
    Entry("3", ("Springfield",), "city in Illinois", ("city",), ("us",)),
    Entry("4", ("Springfield",), "Spanish clothing store chain", ("retailer",), ("es",)),
    Entry("5", ("Punjab State Power Corporation Limited", "PSPCL"), "power utility", (), ("in",)),
    Entry("6", ("Дринкит", "Drinkit Coffee"), "coffee chain", (), ("ru",)),
    Entry("7", ("Lenta",), "hypermarket chain in Russia", (), ("ru",), ("https://lenta.com",)),
    Entry("8", ("!!!",), "American band"),
]


@pytest.fixture(scope="module")
def index() -> Index:
    return build(ENTRIES)


def one(index: Index, *names: str, **said: object) -> Result:
    return match(index, [Query(names, **said)])[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "country", "id_"),
    [
        ("BAUHAUS", "de", "1"),
        ("Bauhaus GmbH", "de", "1"),
        ("papa ginos", "us", "2"),
        ("Papa Gino’s Pizza", "us", "2"),
        ("PSPCL", "in", "5"),
        ("Punjab State Power Corp", "in", "5"),
        ("дринкит", "ru", "6"),
        ("!!!", "", "8"),
    ],
)
def test_a_name_is_matched_with_its_entry(index: Index, name: str, country: str, id_: str) -> None:
    result = one(index, name, countries=(country,) if country else ())

    assert result.verdict is Verdict.MATCHED
    assert result.best
    assert result.best.id == id_


def test_a_name_that_two_entries_bear_is_ambiguous_with_both(index: Index) -> None:
    result = one(index, "Springfield")

    assert result.verdict is Verdict.AMBIGUOUS
    assert result.best is None
    assert {candidate.id for candidate in result.candidates} == {"3", "4"}
    assert result.lead < 0.1


@pytest.mark.parametrize(("country", "id_"), [("us", "3"), ("es", "4")])
def test_a_country_tells_entries_of_one_name_apart(index: Index, country: str, id_: str) -> None:
    result = one(index, "Springfield", countries=(country,))

    assert result.best
    assert result.best.id == id_


def test_a_type_and_a_description_tell_entries_of_one_name_apart(index: Index) -> None:
    shop = one(index, "Springfield", types=("retailer",), description="clothing store")
    city = one(index, "Springfield", types=("city",))

    assert [each.candidates[0].id for each in (shop, city)] == ["4", "3"]


def test_a_website_leads_to_its_entry_though_the_name_is_another(index: Index) -> None:
    result = one(index, "Gino Pizzas", websites=("http://papaginos.com/contact",), countries=("us",))

    assert result.candidates[0].id == "2"
    assert result.candidates[0].features["host"] == 1


@pytest.mark.parametrize("name", ["Zyxwvut", "Completely Different Thing", "澎湖", "", "   ", "\x00", "'"])
def test_what_the_reference_does_not_have_is_not_matched(index: Index, name: str) -> None:
    assert one(index, name).verdict is not Verdict.MATCHED


def test_a_query_without_names_is_no_match(index: Index) -> None:
    assert match(index, [Query(()), Query((), websites=("https://lenta.com",))]) == [Result(Verdict.NONE)] * 2
    assert match(index, []) == []


def test_any_of_several_names_counts_and_the_evidence_says_which(index: Index) -> None:
    best = one(index, "nothing like it", "Drinkit Coffee", countries=("ru",)).best

    assert best
    assert (best.id, best.asked, best.found, best.origin) == ("6", "Drinkit Coffee", "Drinkit Coffee", "name")
    assert best.name == "Дринкит"
    assert list(best.features) == list(FEATURES)
    assert best.features["as_written"] == 1


def test_an_empty_reference_matches_nothing() -> None:
    index = build([])

    assert len(index) == 0
    assert match(index, [Query(("",)), Query(("Bauhaus",))]) == [Result(Verdict.NONE)] * 2


def test_the_threshold_and_the_margin_are_kept(index: Index) -> None:
    strict = replace(Model.standard(), threshold=1.1)
    wide = replace(Model.standard(), threshold=0.1, margin=0.0)

    assert match(index, [Query(("Bauhaus",), countries=("de",))], strict)[0].verdict is Verdict.AMBIGUOUS
    assert match(index, [Query(("Springfield",))], wide)[0].verdict is Verdict.MATCHED


def test_a_hostile_entry_and_a_hostile_name_cost_little() -> None:
    huge = Entry(
        "x", tuple(f"name {n} " * 10_000 for n in range(500)), websites=tuple(f"https://s{n}.de" for n in range(500))
    )

    index = build([huge, Entry("y", ())])

    assert len(index.origin) < 50
    assert match(index, [Query(("a" * 1_000_000,) * 50)])[0].verdict is Verdict.NONE


def test_a_reference_of_many_blocks_is_searched_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found, and how alike it is, depends neither on the chunks nor on the blocks of the index."""
    words = ("blue", "bottle", "coffee", "works", "nordic", "timber", "lamps", "acme", "river", "stone")
    named = [f"{words[n % 10]} {words[n // 10 % 10]} {words[n * 7 % 10]} {n % 13}" for n in range(400)]
    entries = [Entry(f"E{n}", (name,), websites=(f"https://site{n}.de",)) for n, name in enumerate(named)]
    queries = [Query((name.replace("e", "", 1),)) for name in named] + [Query(("nobody at all",))]
    whole = match(build(entries), queries)
    monkeypatch.setattr(indexes, "BLOCK", 150)
    cut = build(entries, size=37)
    assert len(cut.postings) > 3
    assert sum(each.shape[1] for each in cut.postings) == len(cut.owner)
    for one, other in zip(whole, match(cut, queries), strict=True):
        assert one.verdict is other.verdict
        assert [(each.id, round(each.score, 5)) for each in one.candidates] == [
            (each.id, round(each.score, 5)) for each in other.candidates
        ]
