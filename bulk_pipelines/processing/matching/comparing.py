"""What features are made from: the texts and matrices of all pairs of a batch, each worked out once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from scipy import sparse

from bulk_pipelines.processing.matching import grams
from bulk_pipelines.processing.matching.candidates import Names, Pairs
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.folding import compact, fold
from bulk_pipelines.processing.matching.grams import Floats, Ints
from bulk_pipelines.processing.matching.index import WORDS, Index, countries_of, hosts_of

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Spelled:
    """Texts in the ways that they are compared: as written, folded, without spaces and legal form."""

    written: Texts
    folded: Texts
    compact: Texts

    @staticmethod
    def of(written: Sequence[str], folded: Sequence[str]) -> "Spelled":
        return Spelled(_texts(written), _texts(folded), _texts([compact(each) for each in folded]))

    def at(self, places: Ints) -> "Spelled":
        return Spelled(self.written[places], self.folded[places], self.compact[places])


@dataclass(frozen=True)
class Compared:
    """The pairs of a batch, and what is known of both sides."""

    index: Index
    queries: Sequence[Query]
    names: Names
    pairs: Pairs

    @cached_property
    def asked(self) -> Spelled:
        """The name of each pair's query."""
        return Spelled.of(self.names.texts, self.names.folded).at(self.pairs.asked)

    @cached_property
    def known(self) -> Spelled:
        """The name of each pair's entry."""
        variants, place = np.unique(self.pairs.name, return_inverse=True)
        written = self.index.written(variants)
        return Spelled.of(written, [fold(text) for text in written]).at(place)

    @cached_property
    def sites(self) -> tuple[Ints, Texts]:
        """Every name from a website of each pair's entry, with the number of its pair."""
        start, end = self.index.websites[self.pairs.entry], self.index.first[self.pairs.entry + 1]
        counts = end - start
        pair = np.repeat(np.arange(len(self.pairs)), counts)
        variant = np.arange(len(pair)) + np.repeat(start - (np.cumsum(counts) - counts), counts)
        variants, place = np.unique(variant, return_inverse=True)
        return pair, _texts(self.index.written(variants))[place]

    @cached_property
    def weights(self) -> tuple[Floats, Floats, Floats]:
        """How much the words weigh that both names share, all words of the query's, and all words of the entry's."""
        asked = self._weighed(grams.hashed((folded.split() for folded in self.names.folded), WORDS))
        known, place = np.unique(self.pairs.name, return_inverse=True)
        words = self._weighed(self.index.words[known])
        shared = grams.products(asked[self.pairs.asked], words[place])
        return shared, grams.products(asked, asked)[self.pairs.asked], grams.products(words, words)[place]

    def _weighed(self, words: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return the words with the roots of their weights, so that products of rows are sums of weights."""
        roots = np.sqrt(self.index.word_weights[words.indices] - 1)
        return sparse.csr_matrix((words.data * roots, words.indices, words.indptr), shape=words.shape)

    def best_site(self, measure: Callable[[Texts, Texts], Floats], side: Spelled) -> Floats:
        """Return the best measure between the side's name and a name from the entry's websites."""
        best = np.zeros(len(self.pairs), np.float32)
        pair, sites = self.sites
        np.maximum.at(best, pair, measure(side.compact[pair], sites))
        return best

    def marks(self, of_query: Callable[[Query], Sequence[str]], of_entry: sparse.csr_matrix) -> Floats:
        """Return 1 where the query's marks and the entry's have one in common, -1 where both have some and share none,
        and 0 where one side says nothing."""
        asked = grams.hashed((of_query(query) for query in self.queries), of_entry.shape[1])
        row, entry = self.pairs.row, self.pairs.entry
        known = (np.diff(asked.indptr)[row] > 0) & (np.diff(of_entry.indptr)[entry] > 0)
        shared = grams.products(asked[row], of_entry[entry]) > 0
        return np.where(known, np.where(shared, 1, -1), 0).astype(np.float32)

    def described(self, words: sparse.csr_matrix) -> Floats:
        """Return how many of the rows' words stand in the entry's description and types."""
        return grams.products(words[self.pairs.row], self.index.described[self.pairs.entry])

    def countries(self) -> Floats:
        return self.marks(lambda query: countries_of(query.countries, query.websites), self.index.countries)

    def hosts(self) -> Floats:
        return np.maximum(self.marks(lambda query: hosts_of(query.websites), self.index.hosts), 0)


def pairwise(left: Texts, right: Texts, scorer: Callable[..., float], scale: float = 1.0) -> Floats:
    """Return the scorer's measure of each text on the left with the one beside it."""
    return np.asarray(process.cpdist(left, right, scorer=scorer, dtype=np.float32) / scale, np.float32)


def _texts(texts: Sequence[str]) -> Texts:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
