"""What the files of a source are for: the tables that its rules name are declared by the catalogue, at each look anew,
and what refers to what decides the order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bulk_pipelines import resources
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.drops import grouping
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import adoption
from bulk_pipelines.resources.declaration import Resource


@dataclass(frozen=True)
class Targets:
    needs: Mapping[str, Sequence[str]]
    """What files are for, in the order in which they need each other, each with all that it refers to."""
    declared: Mapping[str, Resource] = field(default_factory=dict)
    """The declarations of the tables that rules name."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Why nothing can be imported into others of these tables. Their files wait until that is mended."""


def found(connection: Connection, source: DropSource, references: Mapping[str, Sequence[str]]) -> Targets:
    """Return the targets of a source. `references` has the resources, and which others each of them refers to."""
    declared: dict[str, Resource] = {}
    unusable: dict[str, str] = {}
    for rule in source.rules:
        if not rule.table:
            continue
        try:
            declared[rule.target] = adoption.of_table(connection, rule.table)
        except InvalidInput as error:
            unusable[rule.target] = error.message
            continue
        if rule.mode == "upsert" and not declared[rule.target].keys:
            unusable[rule.target] = f"{rule.table} has no key that an upsert could match on: insert only"
    referred = with_tables(references, declared)
    needs = {each: sorted(grouping.needed_by(each, referred)) for each in grouping.needed_order(referred)}
    return Targets(needs | {rule.target: [] for rule in source.rules if rule.recipe}, declared, unusable)


def with_tables(
    references: Mapping[str, Sequence[str]], declared: Mapping[str, Resource]
) -> Mapping[str, Sequence[str]]:
    """Add tables to the resources: what they refer to, and what refers to them."""
    if not declared:
        return references
    known = {each.name: each for each in resources.known() if each.name in references}
    everything = [*known.items(), *declared.items()]
    at: dict[tuple[str, ...], list[str]] = {}
    for name, each in everything:
        for place in [(schema, each.table) for schema in resources.of_samples()] if each.built_in else [each.place]:
            at.setdefault(place, []).append(name)
    found = {name: set(each) for name, each in references.items()}
    for name, each in everything:
        needed = {other for reference in each.references for other in at.get(reference.table, ())}
        found[name] = found.get(name, set()) | needed - {name}
    return {name: sorted(each) for name, each in found.items()}
