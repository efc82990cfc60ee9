"""Grouping many small files into few jobs. A job gets files of one rule that are ready together, within limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bulk_pipelines.drops.ledger import Ready
from bulk_pipelines.drops.sources import DropSource, Rule


@dataclass(frozen=True)
class Group:
    """The files of one job. They are in the order in which the import reads them as if they were one file."""

    rule: Rule
    files: tuple[Ready, ...]


def grouped(source: DropSource, files: Sequence[Ready], order: Sequence[str]) -> list[Group]:
    """Group files by their rules. A file that is processed by a recipe is a job of its own. The groups are in the order
    in which their resources need each other, and the files of a group keep the order in which they were given."""
    by_rule: dict[Rule, list[Ready]] = {}
    for file in files:
        rule = source.rule_for(file.path)
        if rule is not None:
            by_rule.setdefault(rule, []).append(file)
    rules = sorted(by_rule, key=lambda rule: order.index(rule.target))
    limits = Limits(source.max_files, source.max_bytes)
    alone = replace(limits, files=1)
    return [Group(rule, part) for rule in rules for part in parts(by_rule[rule], alone if rule.recipe else limits)]


@dataclass(frozen=True)
class Limits:
    """How much one job may have."""

    files: int
    bytes: int


def parts(files: Sequence[Ready], limits: Limits) -> list[tuple[Ready, ...]]:
    """Divide files into parts that keep the limits. A file that is larger than the limit is a part of its own."""
    result: list[list[Ready]] = []
    size = 0
    for file in files:
        size += file.size
        if not result or len(result[-1]) >= limits.files or size > limits.bytes:
            result.append([])
            size = file.size
        result[-1].append(file)
    return [tuple(part) for part in result]


def needed_order(references: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the resources in an order in which each comes after those it refers to. Of some that refer to each other
    in a circle, the first comes first."""
    ordered: list[str] = []
    left = list(references)
    while left:
        free = [name for name in left if not needed_by(name, references) & set(left)]
        circles = [name for name in left if not free and name in closed_by(name, references)]
        ordered += free or circles[:1]
        left = [name for name in left if name not in ordered]
    return ordered


def needed_by(resource: str, references: Mapping[str, Sequence[str]]) -> set[str]:
    """Return all other resources that a resource refers to, directly or through others."""
    return closed_by(resource, references) - {resource}


def closed_by(resource: str, references: Mapping[str, Sequence[str]]) -> set[str]:
    """Return all that a resource refers to, and itself if the references come back to it."""
    found: set[str] = set()
    waiting = list(references.get(resource, ()))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(references.get(each, ()))
    return found
