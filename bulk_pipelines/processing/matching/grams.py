"""Trigrams of folded names as sparse matrices. The alphabet is so small that each trigram has a fixed column."""

from collections.abc import Iterable, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789"
COLUMNS = len(ALPHABET) ** 3
MOST = 3  # a trigram that comes more often in one name says no more

_PLACES = np.zeros(256, np.int32)
_PLACES[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))


def trigrams(texts: Sequence[str]) -> sparse.csr_matrix:
    """Return how often each trigram comes in each folded text; a space is put before and after it."""
    letters = _PLACES[np.frombuffer((" " + "  ".join(texts) + " ").encode("ascii"), np.uint8)]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + 2
    row = np.repeat(np.arange(len(texts)), lengths)
    inside = row[2:] == row[:-2]
    column = (letters[:-2] * len(ALPHABET) + letters[1:-1]) * len(ALPHABET) + letters[2:]
    cells, counts = np.unique(row[:-2][inside] * COLUMNS + column[inside], return_counts=True)
    starts = np.searchsorted(cells, np.arange(len(texts) + 1) * COLUMNS)
    return _matrix(np.minimum(counts, MOST).astype(np.float32), cells % COLUMNS, starts, COLUMNS)


def hashed(rows: Iterable[Iterable[str]], columns: int) -> sparse.csr_matrix:
    """Return which words stand in each row, each in the column of its checksum."""
    starts, cells = [0], []
    for words in rows:
        cells += sorted({crc32(word.encode()) % columns for word in words})
        starts.append(len(cells))
    return _matrix(np.ones(len(cells), np.float32), np.array(cells, np.int64), np.array(starts), columns)


def rarity(frequency: npt.NDArray[np.int64], total: int) -> Floats:
    """Return the weight of trigrams or words that stand in so many of all texts."""
    return (np.log((1 + total) / (1 + frequency)) + 1).astype(np.float32)


def alike(frequency: npt.NDArray[np.int64], _: int) -> Floats:
    """Return the same weight for all: for texts that are too few to say what is rare."""
    return np.full(len(frequency), 2, np.float32)


def weighted(counts: sparse.csr_matrix, weights: Floats) -> sparse.csr_matrix:
    """Return the rows weighted, each of length one."""
    data = counts.data * weights[counts.indices]
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(row, data**2, counts.shape[0])).astype(np.float32)
    return sparse.csr_matrix((data / length[row], counts.indices, counts.indptr), shape=counts.shape)


def products(left: sparse.csr_matrix, right: sparse.csr_matrix) -> Floats:
    """Return the product of each row with the row beside it."""
    return np.asarray(left.multiply(right).sum(axis=1), np.float32).ravel()


def _matrix(data: Floats, column: Ints, starts: Ints, columns: int) -> sparse.csr_matrix:
    shape = (len(starts) - 1, columns)
    return sparse.csr_matrix((data, column.astype(np.int32), starts.astype(np.int32)), shape=shape)
