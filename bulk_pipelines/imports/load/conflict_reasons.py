"""The reasons for rejecting a record that passed the rules of its resource: those that only the table, or the file as a
whole, can give."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulk_pipelines.imports.records.parsed import Reason, shown
from bulk_pipelines.resources.declaration import Resource


@dataclass(frozen=True)
class Verdict:
    """What stands against a record, by the names of its columns.

    Keys and references are named by their columns. `doubled` are keys that another record of the file has, with the
    line of that record if it is known yet. `held` are keys that a row has which this import did not load. `missing` are
    columns that refer to rows which do not exist. `refused` is the message of a table that refused the record.
    """

    doubled: Mapping[str, int | None]
    held: frozenset[str]
    missing: frozenset[str]
    refused: str | None = None


def reasons(resource: Resource, verdict: Verdict, values: Mapping[str, str | None], record: str) -> list[Reason]:
    """Return the reasons of a verdict in the order of the columns. `record` is the word for what is counted in this
    format: "line", or "record" in a JSON array."""
    found: list[Reason] = []
    # A table may have two keys of the same columns.
    for key in {each.name: each for each in reversed(resource.keys)}.values():
        if key.name in verdict.doubled:
            line = verdict.doubled[key.name]
            detail = "another record of the file has it" if line is None else f"{record} {line} of the file has it"
        elif key.name in verdict.held:
            detail = "a row of the table has it"
        else:
            continue
        found.append(Reason(key.code, key.name, together(key.columns, values), detail))
    for reference in resource.references:
        if reference.name in verdict.missing:
            what = "id" if reference.to == ("id",) else ",".join(reference.to)
            detail = f"no row of {reference.resource} has this {what}"
            value = together(reference.columns, values)
            found.append(Reason(reference.code, reference.name, value, detail))
    order = {name: place for place, name in enumerate(resource.column_names)}
    first = {key.name: order[key.column] for key in resource.keys}
    first |= {reference.name: order[reference.column] for reference in resource.references}
    ordered = sorted(found, key=lambda reason: first[reason.field or ""])
    if verdict.refused and not ordered:
        # The table's refusal is shown only if nothing else stands against the record. Whether a record with other
        # reasons was also tried depends on the order of the batches, and its reasons must not depend on that.
        return [Reason("refused_by_table", detail=shown(verdict.refused))]
    return ordered


def telling_columns(resource: Resource) -> list[str]:
    """Return the names of the columns whose values are shown in reasons: all keys and references."""
    groups = [key.columns for key in resource.keys] + [each.columns for each in resource.references]
    return list(dict.fromkeys(name for columns in groups for name in columns))


def together(columns: tuple[str, ...], values: Mapping[str, str | None]) -> str | None:
    """Return what a reason shows of the values of a key or a reference."""
    if len(columns) == 1:
        return shown(values[columns[0]])
    return shown(", ".join(values[name] or "" for name in columns))
