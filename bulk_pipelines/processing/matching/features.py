"""What is compared between a query and a candidate: each feature is one number with a name that evidence shows.

A feature is a function of `Compared`; the model weighs them. Features know the query and the reference alone, never the
other queries of a batch, so a row gets the same answer in every batch.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, Prefix

from bulk_pipelines.processing.matching import grams
from bulk_pipelines.processing.matching.comparing import Compared, Texts, pairwise
from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.matching.grams import Floats
from bulk_pipelines.processing.matching.index import WORDS

Feature = Callable[[Compared], Floats]

LONG_NAME, LONG_GAP = 10, 20


def indel(left: Texts, right: Texts) -> Floats:
    return pairwise(left, right, Indel.normalized_similarity)


def word_coverage(compared: Compared) -> Floats:
    """Return the share of the query's words, by weight, that the entry's name has, too."""
    shared, asked, _ = compared.weights
    return _measure(shared / np.maximum(asked, 1e-3))


def name_coverage(compared: Compared) -> Floats:
    """Return the share of the words of the entry's name, by weight, that the query has, too."""
    shared, _, known = compared.weights
    return _measure(shared / np.maximum(known, 1e-3))


def begins_with(left: Texts, right: Texts) -> Floats:
    """Return 1 where one text of at least three letters begins the other."""
    return np.fromiter(
        (len(a) > 2 and len(b) > 2 and (a.startswith(b) or b.startswith(a)) for a, b in zip(left, right, strict=True)),
        np.float32,
        len(left),
    )


def explained(compared: Compared) -> Floats:
    """Return how many words of the query's name stand in the entry's description, though not in its name."""
    asked = [{word for word in folded.split() if len(word) > 2} for folded in compared.names.folded]
    words = grams.hashed(asked, WORDS)[compared.pairs.asked]
    said = compared.index.described[compared.pairs.entry]
    named = compared.index.words[compared.pairs.name]
    return grams.products(words, said) - grams.products(words.multiply(said).tocsr(), named)


def context(compared: Compared) -> Floats:
    """Return how many words of the query's types and description stand in the entry's."""
    words = grams.hashed(
        (fold(" ".join((*query.types, query.description))).split() for query in compared.queries), WORDS
    )
    return np.minimum(compared.described(words), 3)


def foreign(compared: Compared) -> Floats:
    """Return 1 where most of the query's name is written with letters that are not Latin."""
    shares = [sum(letter > "\u024f" for letter in text) > len(text) / 2 for text in compared.names.texts]
    return np.array(shares, np.float32)[compared.pairs.asked]


def as_written(compared: Compared) -> Floats:
    return _measure(np.equal(compared.asked.written, compared.known.written))


def length(compared: Compared) -> Floats:
    return _measure(np.minimum(_lengths(compared.asked.compact), LONG_NAME) / LONG_NAME)


def length_gap(compared: Compared) -> Floats:
    gap = np.abs(_lengths(compared.asked.compact) - _lengths(compared.known.compact))
    return _measure(np.minimum(gap, LONG_GAP) / LONG_GAP)


FEATURES: dict[str, Feature] = {
    "trigrams": lambda compared: compared.pairs.similarity,
    "as_written": as_written,
    "shared_words": lambda compared: pairwise(compared.asked.folded, compared.known.folded, fuzz.token_set_ratio, 100),
    "beginning": lambda compared: pairwise(
        compared.asked.compact, compared.known.compact, Prefix.normalized_similarity
    ),
    "word_coverage": word_coverage,
    "name_coverage": name_coverage,
    "length": length,
    "length_gap": length_gap,
    "foreign": foreign,
    "doubles": lambda compared: compared.index.doubles[compared.pairs.name],
    "site": lambda compared: compared.best_site(indel, compared.asked),
    "site_begins": lambda compared: compared.best_site(begins_with, compared.asked),
    "explained": explained,
    "context": context,
    "country": Compared.countries,
    "host": Compared.hosts,
}
"""Every feature by its name, in the order of the model's weights."""


def features(compared: Compared) -> Floats:
    """Return one row of features for each pair."""
    columns = [feature(compared) for feature in FEATURES.values()]
    return np.stack(columns, axis=1).astype(np.float32)


def _measure(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, np.float32)


def _lengths(texts: Texts) -> Floats:
    return np.fromiter(map(len, texts), np.float32, len(texts))
