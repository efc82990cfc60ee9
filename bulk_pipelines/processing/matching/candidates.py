"""Candidates for queries: entries with rare trigrams in common, an equal name, or a website on the same host."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sparse_dot_topn import sp_matmul_topn, zip_sp_matmul_topn

from bulk_pipelines.processing.matching import grams
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.matching.grams import Floats, Ints
from bulk_pipelines.processing.matching.index import Index, host_key, hosts_of, name_key
from bulk_pipelines.processing.matching.variants import LONGEST, MOST_NAMES, Origin

MOST = 10
"""How many entries are compared with one query. Beyond that, entries of exactly the name are, up to `MOST_EQUAL`."""
MOST_EQUAL = 50
HITS, LEAST_SIMILAR = 20, 0.15
LEAST_SHARE = 0.6
"""The least similarity of a variant that is looked at, as a share of the similarity of the most similar one."""


@dataclass(frozen=True)
class Names:
    """The names of queries, one after the other."""

    row: Ints
    texts: list[str]
    folded: list[str]


@dataclass(frozen=True)
class Pairs:
    """Queries and their candidates, in the order of the rows; the most similar candidate of a row comes first."""

    row: Ints
    entry: Ints
    asked: Ints  # which of the queries' names is most like the entry
    found: Ints  # the variant that it is like
    name: Ints  # the entry's name that it is compared with
    similarity: Floats

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: npt.NDArray[np.bool_] | Ints) -> "Pairs":
        return Pairs(**{field: values[chosen] for field, values in vars(self).items()})


def names_of(queries: Sequence[Query]) -> Names:
    texts = [[name[:LONGEST] for name in query.names[:MOST_NAMES] if name.strip()] for query in queries]
    flat = [text for each in texts for text in each]
    return Names(np.repeat(np.arange(len(queries)), [len(each) for each in texts]), flat, [fold(text) for text in flat])


def find(index: Index, queries: Sequence[Query], names: Names) -> Pairs:
    """Find the entries that each query is worth being compared with."""
    asked, variant, similarity = _similar(index, names)
    equal_asked, _, equal_variant = _looked_up(index, [name_key(folded) for folded in names.folded])
    same = equal_variant >= 0
    linked = [(row, website) for row, query in enumerate(queries) for website in query.websites if hosts_of([website])]
    site, site_entry, _ = _looked_up(index, [host_key(website) for _, website in linked])
    site_row = np.array([row for row, _ in linked], np.int64)[site]
    opening = np.searchsorted(names.row, site_row)  # a website without any name is no query
    opened = opening < np.searchsorted(names.row, site_row, "right")
    asked = np.concatenate([asked, equal_asked[same], opening[opened]])
    variant = np.concatenate([variant, equal_variant[same], index.first[site_entry[opened]]])
    ones = np.ones(int(same.sum()), np.float32)
    similarity = np.concatenate([similarity, ones, np.zeros(int(opened.sum()), np.float32)])
    return _best(index, names, asked, variant, similarity)


def _similar(index: Index, names: Names) -> tuple[Ints, Ints, Floats]:
    """Return which names are like which variants, and how much, by trigrams."""
    asked = grams.weighted(grams.trigrams(names.folded), index.trigram_weights)
    found = [sp_matmul_topn(asked, block, top_n=HITS, threshold=LEAST_SIMILAR, sort=True) for block in index.postings]
    hits = zip_sp_matmul_topn(HITS, found) if len(found) > 1 else found[0]
    row = np.repeat(np.arange(hits.shape[0]), np.diff(hits.indptr))
    best = np.zeros(hits.shape[0], np.float32)
    np.maximum.at(best, row, hits.data)
    likely = hits.data >= LEAST_SHARE * best[row]
    return row[likely], hits.indices[likely].astype(np.int64), hits.data[likely]


def _looked_up(index: Index, keys: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Return which keys lead to which entries and variants."""
    wanted = np.array(keys, np.uint64)
    start, end = np.searchsorted(index.keys, wanted, "left"), np.searchsorted(index.keys, wanted, "right")
    counts = np.minimum(end - start, MOST_EQUAL)
    number = np.repeat(np.arange(len(wanted)), counts)
    place = np.arange(len(number)) + np.repeat(start - (np.cumsum(counts) - counts), counts)
    return number, index.keyed[place].astype(np.int64), index.keyed_variant[place].astype(np.int64)


def _best(index: Index, names: Names, asked: Ints, variant: Ints, similarity: Floats) -> Pairs:
    """Join what was found into one pair for each row and entry, and keep the most similar ones of a row."""
    row, entry = names.row[asked], index.owner[variant].astype(np.int64)
    no_name = index.origin[variant] != Origin.NAME
    by_name = np.lexsort((variant, -similarity, no_name, entry, row))
    name = variant[by_name][_starts(row[by_name], entry[by_name])]
    name = np.where(index.origin[name] == Origin.NAME, name, index.first[index.owner[name]])
    order = np.lexsort((variant, asked, no_name, -similarity, entry, row))
    order = order[_starts(row[order], entry[order])]
    pairs = Pairs(row[order], entry[order], asked[order], variant[order], name, similarity[order])
    pairs = pairs.where(np.lexsort((pairs.entry, -pairs.similarity, pairs.row)))
    start = np.flatnonzero(_starts(pairs.row, pairs.row))
    rank = np.arange(len(pairs)) - np.repeat(start, np.diff(np.append(start, len(pairs))))
    return pairs.where((rank < MOST) | (pairs.similarity == 1))


def _starts(*columns: Ints) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before it."""
    differs = [column[1:] != column[:-1] for column in columns]
    return np.concatenate([np.ones(min(1, len(columns[0])), np.bool_), np.logical_or.reduce(differs)])
