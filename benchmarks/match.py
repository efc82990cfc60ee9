"""The matcher's quality and speed, against what people use. `make bench-match`; `BENCH_BRANDS` names the data.

Quality is that of names on which the model was not fitted. A row that gets several answers counts as unanswered. All
sides run on one core, and their time is the processor's, which other work on the machine does not lengthen.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from rapidfuzz import fuzz, process
from sklearn.feature_extraction.text import TfidfVectorizer
from sparse_dot_topn import sp_matmul_topn

from benchmarks import brands, febrl, measure
from benchmarks.brands import Brands, Named
from bulk_pipelines.processing.matching import candidates, index
from bulk_pipelines.processing.matching.comparing import pairwise
from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.matching import match

TIMED, ROUNDS = 10_000, 3
MOST_SECONDS = 1.0
SEED = 13
Answers = list[tuple[str | None, float]]
"""The entry of each row, or none, and how sure the side is."""


@dataclass(frozen=True)
class Quality:
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-9)

    def __str__(self) -> str:
        return f"precision {self.precision:.4f}, recall {self.recall:.4f}, F1 {self.f1:.4f}"


def quality(data: Brands, rows: Sequence[Named], answers: Answers, least: float = 0.0) -> Quality:
    given = [(row, id_) for row, (id_, sure) in zip(rows, answers, strict=True) if id_ is not None and sure >= least]
    right = sum(data.is_right(row.name, id_) for row, id_ in given)
    return Quality(right / max(len(given), 1), right / len(rows))


def ours(known: Index, rows: Sequence[Named]) -> Answers:
    results = match(known, [row.query for row in rows])
    return [
        (each.candidates[0].id if each.candidates else None, each.candidates[0].score if each.best else -1.0)
        for each in results
    ]


def exact(data: Brands) -> Callable[[Sequence[Named]], Answers]:
    labels = defaultdict(list)
    for entry in data.entries:
        labels[entry.names[0]].append(entry.id)

    def answer(rows: Sequence[Named]) -> Answers:
        return [(found[0], 1.0) if len(found := labels.get(row.name, [])) == 1 else (None, 0.0) for row in rows]

    return answer


def openrefine(data: Brands, known: Index) -> Callable[[Sequence[Named]], Answers]:
    """OpenRefine's formula over the candidates that ours finds: the score of the best, if it is above 95 and leads by
    10."""
    folded = np.array([fold(entry.names[0]) for entry in data.entries], object)

    def answer(rows: Sequence[Named]) -> Answers:
        queries = [row.query for row in rows]
        names = candidates.names_of(queries)
        pairs = candidates.find(known, queries, names)
        asked = np.array(names.folded, object)[pairs.asked]
        scores = pairwise(asked, folded[pairs.entry], fuzz.token_sort_ratio)
        best: list[list[tuple[float, int]]] = [[] for _ in rows]
        for row, entry, score in zip(pairs.row.tolist(), pairs.entry.tolist(), scores.tolist(), strict=True):
            best[row].append((score, entry))
        return [_auto_matched(data, sorted(each, reverse=True)) for each in best]

    return answer


def _auto_matched(data: Brands, ranked: list[tuple[float, int]]) -> tuple[str | None, float]:
    if not ranked or ranked[0][0] <= 95 or (len(ranked) > 1 and ranked[0][0] - ranked[1][0] < 10):
        return None, 0.0
    return data.entries[ranked[0][1]].id, ranked[0][0]


def cdist(data: Brands) -> Callable[[Sequence[Named]], Answers]:
    """Compare every name with every label; labels that are equally like are no answer."""
    labels = [fold(entry.names[0]) for entry in data.entries]

    def answer(rows: Sequence[Named]) -> Answers:
        answers: Answers = []
        for start in range(0, len(rows), 1000):
            asked = [fold(row.name) for row in rows[start : start + 1000]]
            scores = process.cdist(asked, labels, scorer=fuzz.ratio, dtype=np.uint8, workers=1)
            place = scores.argmax(axis=1)
            sure = scores[np.arange(len(asked)), place].astype(float)
            alone = (scores == sure[:, None].astype(np.uint8)).sum(axis=1) == 1
            answers += [
                (data.entries[at].id if one else None, float(score))
                for at, one, score in zip(place.tolist(), alone.tolist(), sure.tolist(), strict=True)
            ]
        return answers

    return answer


def tfidf(data: Brands) -> Callable[[Sequence[Named]], Answers]:
    """scikit-learn's TF-IDF of trigrams and the two most alike labels, by a sparse product."""
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
    labels = vectorizer.fit_transform([fold(entry.names[0]) for entry in data.entries]).T.tocsr()

    def answer(rows: Sequence[Named]) -> Answers:
        asked = vectorizer.transform([fold(row.name) for row in rows])
        hits = sp_matmul_topn(asked, labels, top_n=2, sort=True)
        answers: Answers = []
        for start, end in zip(hits.indptr[:-1], hits.indptr[1:], strict=True):
            scores = [*hits.data[start:end].tolist(), 0.0, 0.0]
            clear = scores[0] - scores[1] > 0.02
            answers.append((data.entries[hits.indices[start]].id if clear else None, scores[0]))
        return answers

    return answer


def best_threshold(data: Brands, rows: Sequence[Named], answers: Answers) -> float:
    """Return the threshold with the highest F1, for a side that has none of its own."""
    sure = np.array([sure if id_ is not None else -1.0 for id_, sure in answers])
    right = np.array([data.is_right(row.name, id_) for row, (id_, _) in zip(rows, answers, strict=True)])
    order = np.argsort(-sure, kind="stable")
    f1 = 2 * np.cumsum(right[order]) / (np.arange(1, len(rows) + 1) + len(rows))
    return float(sure[order][int(f1.argmax())])


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def curve(data: Brands, known: Index, rows: Sequence[Named]) -> None:
    answers = [(id_, abs(sure)) for id_, sure in _first(known, rows)]
    for least in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99):
        _say(f"  probability >= {least}: {quality(data, rows, answers, least)}")
    shown = [(id_, sure, row) for row, (id_, sure) in zip(rows, answers, strict=True) if id_]
    for low in np.arange(0, 1, 0.1):
        part = [(sure, data.is_right(row.name, id_)) for id_, sure, row in shown if low <= sure < low + 0.1 + 1e-6]
        said, true = np.mean([sure for sure, _ in part]), np.mean([right for _, right in part])
        _say(f"  first candidates from {low:.1f}: {len(part)}, said {said:.3f}, right {true:.3f}")


def _first(known: Index, rows: Sequence[Named]) -> Answers:
    results = match(known, [row.query for row in rows])
    return [(each.candidates[0].id, each.candidates[0].score) if each.candidates else (None, 0.0) for each in results]


def absent(data: Brands, rows: Sequence[Named]) -> None:
    """Say what comes of a reference that lacks three of ten of the entities."""
    gone = set(np.random.default_rng(SEED).permutation(sorted({row.id for row in rows}))[: len(rows) // 5].tolist())
    known = index.build(entry for entry in data.entries if entry.id not in gone)
    answers = ours(known, rows)
    there = [bool(data.right[row.name] - gone) for row in rows]
    given = [(row, id_) for row, (id_, sure) in zip(rows, answers, strict=True) if sure > 0]
    right = sum(data.is_right(row.name, id_) for row, id_ in given)
    _say(
        f"reference without {1 - sum(there) / len(rows):.0%} of the entities: precision {right / len(given):.4f}, "
        f"recall of those that are there {right / sum(there):.4f}"
    )


def persons() -> None:
    """Say what comes of records of persons, on which nothing was fitted: the matcher was made for names of companies
    and brands."""
    entries, rows = febrl.load()
    known = index.build(entries)
    data = Brands(entries, rows)
    sides = {"ours": ours(known, rows), "OpenRefine's formula": openrefine(data, known)(rows)}
    found = {}
    for name, answers in sides.items():
        given = [(row.id, id_) for row, (id_, sure) in zip(rows, answers, strict=True) if id_ is not None and sure >= 0]
        right = sum(wanted == id_ for wanted, id_ in given)
        found[name] = Quality(right / max(len(given), 1), right / len(rows))
        _say(f"FEBRL 4, {name}: {found[name]}")
    measure.report("match-febrl-f1", found["ours"].f1, found["OpenRefine's formula"].f1, "F1")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    data = brands.load()
    known = index.build(data.entries)
    fitted, rows = ([row for row in data.names if row.fitted is which] for which in (True, False))
    _say(f"{len(data.entries):,} entries, {len(rows):,} names to judge, {len(fitted):,} names fitted on")
    sides = {"ours": lambda some: ours(known, some), "exact label": exact(data)}
    sides |= {"OpenRefine's formula": openrefine(data, known), "cdist": cdist(data), "TF-IDF": tfidf(data)}
    timed = rows[:TIMED]
    samples = measure.in_turns([partial(seconds, partial(side, timed)) for side in sides.values()], ROUNDS)
    scale = TIMED / len(timed)
    took_by = {name: median(each) * scale for name, each in zip(sides, samples, strict=True)}
    found = {}
    for name, side in sides.items():
        answers = side(rows)
        least = best_threshold(data, rows, answers) if name in ("cdist", "TF-IDF") else 0.0
        found[name] = quality(data, rows, answers, least)
        _say(f"{name}: {found[name]}; {took_by[name]:.2f} s for {TIMED:,} rows")
    if fitted:
        _say(f"ours, on the names that the model was fitted on: {quality(data, fitted, ours(known, fitted))}")
    absent(data, rows)
    curve(data, known, rows)
    assert found["ours"].f1 >= found["cdist"].f1
    measure.report("match-f1", found["ours"].f1, found["OpenRefine's formula"].f1, "F1")
    measure.report("match-precision", found["ours"].precision, 1, "share")
    measure.report("match-recall", found["ours"].recall, 1, "share")
    measure.report("match-speed", TIMED / took_by["ours"], TIMED / took_by["cdist"], "rows/s")
    measure.report("match-seconds", took_by["ours"], MOST_SECONDS, "s for 10,000 rows")
    persons()


if __name__ == "__main__":
    main()
