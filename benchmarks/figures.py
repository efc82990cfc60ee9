"""The figures in the docs. `make bench` keeps what it measures in docs/benchmarks.json, and `make docs` writes the
tables of docs/benchmarks.md from that, and the ratios in prose that stand before a comment with a figure's name."""

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
KEPT = DOCS / "benchmarks.json"
TABLE = re.compile(r"(<!-- figures: ([a-z-]+) -->).*?(<!-- end of figures -->)", re.DOTALL)
RATIO = re.compile(r"\d+(?:\.\d+)?(<!-- ([a-z0-9-]+) -->)")


@dataclass(frozen=True)
class Figure:
    """What a figure says: the benchmark that measures it, what is compared, and what its ratio should be."""

    benchmark: str
    compared: str
    target: str = ""


FIGURES: Mapping[str, Mapping[str, Figure]] = {
    section: {name: Figure(**said) for name, said in those.items()}
    for section, those in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).items()
}
"""The figures of each table by their names, in the order of the table."""


@dataclass(frozen=True)
class Measured:
    name: str
    ours: float
    peer: float
    unit: str
    ratio: float


def kept(path: Path = KEPT) -> dict[str, Measured]:
    """Return the figures that were measured last, by their names."""
    return {each["name"]: Measured(**each) for each in json.loads(path.read_text())}


def keep(path: Path, line: Mapping[str, object]) -> None:
    """Put a figure into the file, one line for each."""
    found = {each["name"]: each for each in json.loads(path.read_text())} if path.exists() else {}
    found[line["name"]] = line
    lines = ",\n".join(json.dumps(found[name]) for name in sorted(found))
    path.write_text(f"[\n{lines}\n]\n")


def table(section: str, found: Mapping[str, Measured]) -> str:
    """Return the table of a section: what was measured, and what is to be measured yet."""
    lines = ["| figure | command | what is compared | ours | peer | ratio | target |", "| --- " * 7 + "|"]
    for name, figure in FIGURES[section].items():
        each = found.get(name)
        cells = ["", "", ""]
        if each is not None:
            cells = [shown(each.ours, each.unit), shown(each.peer, each.unit), number(each.ratio)]
        row = [f"`{name}`", f"`make bench-{figure.benchmark}`", figure.compared, *cells, figure.target]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def shown(value: float, unit: str) -> str:
    return f"{number(value)} {unit}"


def number(value: float) -> str:
    """Return a number with three digits that say something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def written(text: str, found: Mapping[str, Measured]) -> str:
    """Return a page with its tables and ratios as they were measured."""
    text = TABLE.sub(lambda match: f"{match[1]}\n\n{table(match[2], found)}\n{match[3]}", text)
    return RATIO.sub(lambda match: number(found[match[2]].ratio) + match[1], text)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(written(page.read_text(), kept()))
