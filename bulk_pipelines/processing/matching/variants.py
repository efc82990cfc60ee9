"""The texts that an entry can be found by: its names, their acronym, and the names that its web addresses carry."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from bulk_pipelines.processing.matching.entries import Entry
from bulk_pipelines.processing.matching.folding import acronym, fold, site


class Origin(IntEnum):
    """Where a variant comes from."""

    NAME = 0
    ACRONYM = 1
    WEBSITE = 2


class Variant(NamedTuple):
    """A text that an entry can be found by, as it is written and folded."""

    origin: Origin
    text: str
    folded: str


MOST_NAMES, MOST_SITES, LONGEST = 20, 5, 300
"""Bounds on what one entry may bring, so that a hostile one costs little."""


def variants(entry: Entry) -> Iterator[Variant]:
    """Yield each variant of the entry once: names first, then acronyms, then web addresses."""
    seen: set[tuple[Origin, str]] = set()
    names = [name[:LONGEST] for name in entry.names[:MOST_NAMES]] or [""]
    found = [Variant(Origin.NAME, name, fold(name)) for name in names]
    found += [Variant(Origin.ACRONYM, short, short) for each in found[:] if (short := acronym(each.folded))]
    sites = (site(website)[0] for website in entry.websites)
    found += [Variant(Origin.WEBSITE, name, name) for name in list(dict.fromkeys(filter(None, sites)))[:MOST_SITES]]
    for variant in found:
        if (variant.origin, variant.folded) not in seen:
            seen.add((variant.origin, variant.folded))
            yield variant
