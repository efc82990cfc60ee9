"""The matcher's memory with a reference of 1,000,000 names, made from the brands. `make bench-match-memory`."""

import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks import brands, measure
from bulk_pipelines.processing.matching.entries import Entry
from bulk_pipelines.processing.matching.index import build
from bulk_pipelines.processing.matching.matching import match

SIZE, ROWS, MOST_MEGABYTES, SEED = 1_000_000, 10_000, 1024, 13


def many(entries: Sequence[Entry], size: int) -> Iterator[Entry]:
    """Make a large reference: labels, each with a word of another label, in a vocabulary that stays real."""
    draw = random.Random(SEED)
    words = [word for entry in entries for word in entry.names[0].split()]
    for number in range(size):
        entry = draw.choice(entries)
        name = f"{entry.names[0]} {draw.choice(words)}"
        yield Entry(f"M{number}", (name,), entry.description, websites=entry.websites)


def main() -> None:
    data = brands.load()
    start = time.process_time()
    known = build(many(data.entries, SIZE))
    built = time.process_time()
    match(known, [row.query for row in data.names[:ROWS]])
    took = time.process_time() - built
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"built in {built - start:.0f} s; {ROWS:,} rows matched in {took:.1f} s", file=sys.stderr)
    measure.report("match-memory", megabytes, MOST_MEGABYTES, "MB")


if __name__ == "__main__":
    main()
