"""What holds for every reference and every name."""

from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.matching.grams import ALPHABET, trigrams
from bulk_pipelines.processing.matching.index import build
from bulk_pipelines.processing.matching.matching import match
from bulk_pipelines.processing.matching.results import Result, Verdict

WORDS = st.sampled_from(["Nord", "Süd", "bank", "Café", "Дом", "銀行", "of", "AG", "7", "!"])
NAMES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
TEXTS = st.one_of(NAMES, st.text(max_size=20))
COUNTRIES = st.lists(st.sampled_from(["de", "us", "", "DE "]), max_size=2).map(tuple)
QUERIES = st.lists(st.builds(Query, st.lists(TEXTS, max_size=2).map(tuple), countries=COUNTRIES), max_size=8)
ENTRIES = st.lists(st.tuples(st.lists(TEXTS, max_size=2).map(tuple), COUNTRIES), max_size=12).map(
    lambda each: [Entry(str(number), names, countries=countries) for number, (names, countries) in enumerate(each)]
)


def _shown(results: list[Result]) -> list[object]:
    return [(each.verdict, [(c.id, c.score, c.features) for c in each.candidates]) for each in results]


@given(st.text())
def test_folding_keeps_to_its_alphabet_and_folds_once(text: str) -> None:
    folded = fold(text)

    assert set(folded) <= set(ALPHABET)
    assert fold(folded) == folded
    assert folded == " ".join(folded.split())


@given(st.lists(TEXTS.map(fold), max_size=6))
def test_trigrams_are_those_of_a_slow_count(texts: list[str]) -> None:
    slow = [{f" {text} "[at : at + 3] for at in range(len(text))} for text in texts]

    assert [set(row.indices) for row in trigrams(texts)] == [
        {
            sum(ALPHABET.index(letter) * 37**power for letter, power in zip(gram, (2, 1, 0), strict=True))
            for gram in each
        }
        for each in slow
    ]


@given(ENTRIES, QUERIES)
def test_a_row_gets_the_same_answer_alone_as_in_a_batch(entries: list[Entry], queries: list[Query]) -> None:
    index = build(entries)
    together = match(index, queries)

    alone = [match(index, [query])[0] for query in queries]

    assert _shown(together) == _shown(alone)


@given(ENTRIES, QUERIES, st.integers(1, 5))
def test_an_index_is_the_same_however_its_stream_is_cut(entries: list[Entry], queries: list[Query], size: int) -> None:
    whole, cut = build(entries), build(entries, size)

    assert _shown(match(whole, queries)) == _shown(match(cut, queries))
    assert abs(sparse.hstack(whole.postings) - sparse.hstack(cut.postings)).sum() == 0
    assert len(whole) == len(cut) == len(entries)


@given(ENTRIES, QUERIES)
def test_scores_are_probabilities_in_order_and_a_match_leads(entries: list[Entry], queries: list[Query]) -> None:
    for result in match(build(entries), queries):
        scores = [candidate.score for candidate in result.candidates]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert sum(scores) <= 1.001
        assert (result.verdict is Verdict.MATCHED) == (bool(scores) and scores[0] >= 0.5 and result.lead >= 0.1)


@given(ENTRIES)
def test_every_name_finds_its_entry(entries: list[Entry]) -> None:
    index = build(entries)
    for entry in entries:
        for name in filter(str.strip, entry.names):
            others = {each.id for each in entries if any(fold(other) == fold(name) for other in each.names)}
            found = {
                candidate.id for candidate in match(index, [Query((name,), countries=entry.countries)])[0].candidates
            }
            assert found & others or not fold(name)
