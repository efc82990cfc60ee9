"""A reference in memory, built from a stream of entries of which only some are held at a time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from bulk_pipelines.processing.matching import grams
from bulk_pipelines.processing.matching.entries import Entry
from bulk_pipelines.processing.matching.folding import compact, fold, host, site
from bulk_pipelines.processing.matching.grams import Floats, Ints
from bulk_pipelines.processing.matching.memory import apart, room
from bulk_pipelines.processing.matching.variants import Origin, Variant, variants

WORDS = 1 << 20
"""Columns for words; two words that meet in one column are taken for one."""
MARKS = (1 << 31) - 1
"""Columns for what is only compared, never weighed: hosts and countries."""
CHUNK = 5_000
BLOCK = 1 << 18
"""Variants that are searched together, at least: a search takes room for all that it searches."""
COMMON_SHARE, COMMON_LEAST = 0.01, 300
"""A trigram of more than this share of all variants leads to no candidates, if it stands in more than so many: it costs
more than all others together and tells names apart the least."""

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int32]
Weigh = Callable[[npt.NDArray[np.int64], int], Floats]


@dataclass(frozen=True)
class Index:
    """What is known of a reference. Entries and variants have numbers; the variants of an entry are neighbours, in the
    order of their origins."""

    entries: pa.Table  # id, name, description, types
    texts: "pa.ChunkedArray[Any]"  # of each variant, as written
    owner: Numbers  # of each variant: its entry
    origin: npt.NDArray[np.int8]  # of each variant
    first: Ints  # of each entry: its first variant, and where the last one's end
    websites: Ints  # of each entry: its first variant from a website
    doubles: Floats  # of each variant: the logarithm of how many entries bear it
    words: sparse.csr_matrix  # of each variant that is a name
    word_weights: Floats
    trigram_weights: Floats
    postings: tuple[sparse.csr_matrix, ...]  # of each trigram: the variants with it, weighted; a block of variants each
    described: sparse.csr_matrix  # of each entry: the words of its description and types
    countries: sparse.csr_matrix  # of each entry
    hosts: sparse.csr_matrix  # of each entry
    keys: Keys  # in order: what is looked up whole
    keyed: Numbers  # of each key: its entry
    keyed_variant: Numbers  # of each key: its variant, or -1 for a host

    def __len__(self) -> int:
        return self.entries.num_rows

    def written(self, variants: Ints) -> list[str]:
        return taken(self.texts, variants)


def taken(column: "pa.ChunkedArray[Any]", places: Ints) -> list[str]:
    """Return the texts in these places. Arrow itself would join all chunks first, in as much memory again."""
    found = np.empty(len(places), object)
    order = np.argsort(places, kind="stable")
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    parts = np.split(order, np.searchsorted(places[order], ends[:-1]))
    for chunk, end, part in zip(column.chunks, ends.tolist(), parts, strict=False):
        if len(part):
            found[part] = chunk.take(pa.array(places[part] - (end - len(chunk)))).to_pylist()
    return cast(list[str], found.tolist())


def build(entries: Iterable[Entry], size: int = CHUNK, weigh: Weigh = grams.rarity) -> Index:
    """Build the index of a stream of entries, of which it holds `size` at a time. `weigh` says what a trigram or a word
    weighs."""
    building, stream = _Building(weigh), iter(entries)
    while chunk := list(islice(stream, size)):
        building.add(chunk)
    return building.finish()


def name_key(folded: str) -> int:
    """Return what equal names have in common: all but spaces and the legal form."""
    return _key("name", compact(folded))


def host_key(website: str) -> int:
    """Return what two addresses on one host have in common."""
    return _key("host", host(website))


def countries_of(countries: Iterable[str], websites: Iterable[str]) -> list[str]:
    """Return the countries that are given, or else those that web addresses end with."""
    given = [country.strip().lower() for country in countries if country.strip()]
    return given or [country for website in websites if (country := site(website)[1])]


def hosts_of(websites: Iterable[str]) -> list[str]:
    return [name for website in websites if (name := host(website))]


def _key(kind: str, text: str) -> int:
    return int.from_bytes(blake2b(f"{kind} {text}".encode(), digest_size=8).digest(), "little")


class _Building:
    """What the chunks have brought so far."""

    def __init__(self, weigh: Weigh) -> None:
        self.weigh = weigh
        self.tables: list[pa.Table] = []
        self.texts: list[pa.Array[Any]] = []
        self.numbers: list[tuple[Numbers, npt.NDArray[np.int8]]] = []
        self.keys: list[tuple[Keys, Numbers, Numbers]] = []
        self.matrices: dict[str, list[tuple[Numbers, Numbers, int]]] = {}
        """The columns of the cells of each matrix, how many each row has, and how many columns there are. All are 1."""
        self.trigrams: list[_Small] = []
        self.frequency = np.zeros(grams.COLUMNS, np.int64)
        self.size = self.variants = 0

    def add(self, chunk: Sequence[Entry]) -> None:
        found = [list(variants(entry)) for entry in chunk]
        flat: list[Variant] = [variant for each in found for variant in each]
        owner = np.repeat(np.arange(self.size, self.size + len(chunk), dtype=np.int32), [len(each) for each in found])
        self.tables.append(_table(chunk))
        self.texts.append(pa.array([variant.text for variant in flat], pa.large_string()))
        self.numbers.append((apart(owner), apart(np.array([variant.origin for variant in flat], np.int8))))
        named = [variant.folded.split() if variant.origin is Origin.NAME else [] for variant in flat]
        trigrams = grams.trigrams([variant.folded for variant in flat])
        self.frequency += np.bincount(trigrams.indices, minlength=grams.COLUMNS)
        self.trigrams.append(_Small.of(trigrams))
        self._keep("words", grams.hashed(named, WORDS))
        described = (fold(" ".join((entry.description, *entry.types))).split() for entry in chunk)
        self._keep("described", grams.hashed(described, WORDS))
        self._keep("countries", grams.hashed((countries_of(each.countries, each.websites) for each in chunk), MARKS))
        self._keep("hosts", grams.hashed((hosts_of(each.websites) for each in chunk), MARKS))
        self._look_up(chunk, flat, owner)
        self.size, self.variants = self.size + len(chunk), self.variants + len(flat)

    def _look_up(self, chunk: Sequence[Entry], flat: Sequence[Variant], owner: Numbers) -> None:
        """Note what the chunk's entries are looked up by: their variants, and the hosts of their websites."""
        sites = [(number, each) for number, entry in enumerate(chunk, self.size) for each in set(entry.websites)]
        keys = [name_key(variant.folded) for variant in flat] + [host_key(website) for _, website in sites]
        variant = np.arange(self.variants, self.variants + len(flat), dtype=np.int32)
        self.keys.append(
            (
                apart(np.array(keys, np.uint64)),
                apart(np.concatenate([owner, np.array([number for number, _ in sites], np.int32)])),
                apart(np.concatenate([variant, np.full(len(sites), -1, np.int32)])),
            )
        )

    def _keep(self, name: str, matrix: sparse.csr_matrix) -> None:
        self.matrices.setdefault(name, []).append(
            (apart(matrix.indices), apart(np.diff(matrix.indptr).astype(np.int32)), matrix.shape[1])
        )

    def finish(self) -> Index:
        known = self.size
        if not known:
            self.add([Entry("", ("",))])  # matrices need a row; no query finds this one
        weights, postings = self._postings()  # first, because it lets go of most of what has waited
        owner = np.concatenate([owner for owner, _ in self.numbers])
        origin = np.concatenate([origin for _, origin in self.numbers])
        first = np.searchsorted(owner, np.arange(self.size + 1))
        doubles, keys, keyed, keyed_variant = self._looked_up(origin)
        words = self._stacked("words")
        names = int((origin == Origin.NAME).sum())
        return Index(
            entries=pa.concat_tables(self.tables).slice(0, known),
            texts=pa.chunked_array(self.texts),
            owner=owner,
            origin=origin,
            first=first,
            websites=first[:-1] + np.bincount(owner[origin != Origin.WEBSITE], minlength=self.size),
            doubles=doubles,
            words=words,
            word_weights=self.weigh(np.bincount(words.indices, minlength=WORDS), names),
            trigram_weights=weights,
            postings=postings,
            described=self._stacked("described"),
            countries=self._stacked("countries"),
            hosts=self._stacked("hosts"),
            keys=keys,
            keyed=keyed,
            keyed_variant=keyed_variant,
        )

    def _looked_up(self, origin: npt.NDArray[np.int8]) -> tuple[Floats, Keys, Numbers, Numbers]:
        """Return how many names equal each variant, and what is looked up whole, in the order of the keys."""
        keys, keyed, keyed_variant = (np.concatenate(each) for each in zip(*self.keys, strict=True))
        self.keys.clear()
        order = np.argsort(keys, kind="stable")
        keys, keyed, keyed_variant = keys[order], keyed[order], keyed_variant[order]
        return _doubles(keys, keyed_variant, origin), keys, keyed, keyed_variant

    def _stacked(self, name: str) -> sparse.csr_matrix:
        chunks = self.matrices.pop(name)
        counts = np.concatenate([each for _, each, _ in chunks])
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        column, at = room(int(starts[-1]), np.int32), 0
        shape = (len(counts), chunks[0][2])
        chunks.reverse()
        while chunks:
            cells, _, _ = chunks.pop()
            column[at : at + len(cells)] = cells
            at += len(cells)
        return sparse.csr_matrix((np.ones(len(column), np.int8), column, starts), shape=shape)

    def _postings(self) -> tuple[Floats, tuple[sparse.csr_matrix, ...]]:
        """Weigh the trigrams and turn them round, a block of variants at a time. What has become a block is let go."""
        weights = self.weigh(self.frequency, self.variants)
        common = self.frequency > max(COMMON_LEAST, COMMON_SHARE * self.variants)
        blocks: list[sparse.csr_matrix] = []
        self.trigrams.reverse()
        while self.trigrams:
            waiting: list[sparse.csr_matrix] = []
            while self.trigrams and sum(each.shape[0] for each in waiting) < BLOCK:
                chunk = grams.weighted(self.trigrams.pop().matrix(), weights)
                chunk.data[common[chunk.indices]] = 0
                chunk.eliminate_zeros()
                waiting.append(chunk)
            turned = sparse.vstack(waiting, format="csr").T.tocsr()
            cells = apart(turned.data), apart(turned.indices), apart(turned.indptr)
            blocks.append(sparse.csr_matrix(cells, shape=turned.shape))
        return weights, tuple(blocks)


@dataclass(frozen=True)
class _Small:
    """Counts of trigrams in a third of the room that a sparse matrix takes, for a million names wait at once."""

    counts: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int32]

    @staticmethod
    def of(matrix: sparse.csr_matrix) -> "_Small":
        cells = apart(matrix.data.astype(np.uint8)), apart(matrix.indices.astype(np.uint16))
        return _Small(*cells, apart(matrix.indptr.astype(np.int32)))

    def matrix(self) -> sparse.csr_matrix:
        cells = (self.counts.astype(np.float32), self.columns.astype(np.int32), self.starts)
        return sparse.csr_matrix(cells, shape=(len(self.starts) - 1, grams.COLUMNS))


def _table(chunk: Sequence[Entry]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([entry.id for entry in chunk], pa.large_string()),
            "name": pa.array([entry.names[0] if entry.names else "" for entry in chunk], pa.large_string()),
            "description": pa.array([entry.description for entry in chunk], pa.large_string()),
            "types": pa.array([list(entry.types) for entry in chunk], pa.list_(pa.string())),
        }
    )


def _doubles(keys: Keys, variant: Numbers, origin: npt.NDArray[np.int8]) -> Floats:
    """Return the logarithm of how many names equal each variant. The keys are in order, so equal ones are
    neighbours."""
    doubles = np.zeros(len(origin), np.float32)
    named = variant >= 0
    named[named] = origin[variant[named]] == Origin.NAME
    known, of = keys[named], variant[named]
    if len(known):
        begins = np.flatnonzero(np.concatenate([[True], known[1:] != known[:-1]]))
        counts = np.diff(np.append(begins, len(known)))
        doubles[of] = np.repeat(np.log(counts), counts)
    return doubles
