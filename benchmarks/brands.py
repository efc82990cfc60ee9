"""Brands and operators as people write them, with the Wikidata entity that is right: the data of the matcher's figures.

`BENCH_BRANDS` names the folder: `entities.ndjson.gz`, and files of names, `names*.csv.gz`. Without it,
`shared/data/brands` is looked for beside the checkout and above.
"""

import csv
import gzip
import json
import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from bulk_pipelines.processing.matching.entries import Entry, Query

Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Named:
    """A name, as it is asked for, and the entity that it was written for."""

    query: Query
    id: str
    fitted: bool  # may the model have been fitted on it?

    @property
    def name(self) -> str:
        return self.query.names[0]


@dataclass(frozen=True)
class Brands:
    entries: list[Entry]
    names: list[Named]

    @cached_property
    def right(self) -> dict[str, frozenset[str]]:
        """The entities that stand with each name: any of them is right."""
        found = defaultdict(set)
        for each in self.names:
            found[each.name].add(each.id)
        return {name: frozenset(ids) for name, ids in found.items()}

    def is_right(self, name: str, id_: str | None) -> bool:
        return id_ in self.right[name]


def load() -> Brands:
    """Read the entities and all names. Half of the entities of `names_dev` are for fitting, by a checksum."""
    folder = _folder()
    names = []
    for path in sorted(folder.glob("names*.csv.gz")):
        with gzip.open(path, "rt", newline="") as lines:
            names += [_named(row, path) for row in csv.DictReader(lines)]
    with gzip.open(folder / "entities.ndjson.gz", "rt") as lines:
        return Brands([_entry(json.loads(line)) for line in lines], names)


def _folder() -> Path:
    if given := os.environ.get("BENCH_BRANDS"):
        return Path(given)
    places = [parent / "shared" / "data" / "brands" for parent in Path(__file__).resolve().parents]
    return next((place for place in places if place.is_dir()), places[-1])


def _entry(entity: dict[str, object]) -> Entry:
    websites = entity["websites"]
    assert isinstance(websites, list)
    return Entry(str(entity["id"]), (str(entity["label"]),), str(entity["description"]), websites=tuple(websites))


def _named(row: dict[str, str], path: Path) -> Named:
    countries = tuple(filter(None, row["countries"].split(";")))
    fitted = path.name.startswith("names_dev") and crc32(row["id"].encode()) % 2 == 0
    return Named(Query((row["name"],), types=(row["category"],), countries=countries), row["id"], fitted)
