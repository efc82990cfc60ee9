"""Why a record that passed the rules of the file is not loaded: the reasons that only the table or the file as a whole
can give."""

from collections.abc import Mapping
from dataclasses import dataclass

from bulk_pipelines.imports.records.parsed import Reason, shown
from bulk_pipelines.resources.declaration import Resource


@dataclass(frozen=True)
class Verdict:
    """`doubled`: keys that another record of the file has, with its line where that is known yet. `held`: keys that a
    row of other origin has. `missing`: columns that refer to rows which do not exist."""

    doubled: Mapping[str, int | None]
    held: frozenset[str]
    missing: frozenset[str]
    refused: str | None = None


def reasons(resource: Resource, verdict: Verdict, values: Mapping[str, str | None], record: str) -> list[Reason]:
    """In the order of the columns. `record` is what the records of this format are counted by: lines, or themselves."""
    found: dict[str, Reason] = {}
    for key in resource.keys:
        if key.column in verdict.doubled:
            line = verdict.doubled[key.column]
            detail = "another record of the file has it" if line is None else f"{record} {line} of the file has it"
        elif key.column in verdict.held:
            detail = "a row of the table has it"
        else:
            continue
        found[key.column] = Reason(key.code, key.column, shown(values[key.column]), detail)
    for reference in resource.references:
        if reference.column in verdict.missing:
            detail = f"no row of {reference.resource} has this id"
            found[reference.column] = Reason(reference.code, reference.column, shown(values[reference.column]), detail)
    ordered = [found[name] for name in resource.column_names if name in found]
    if verdict.refused and not ordered:
        # A record that could not be loaded anyway may have been tried before that was known, or not: it depends on the
        # order of the batches.
        return [Reason("refused_by_table", detail=shown(verdict.refused))]
    return ordered


def telling_columns(resource: Resource) -> list[str]:
    """The columns whose values the reasons show."""
    return list(dict.fromkeys([key.column for key in resource.keys] + [each.column for each in resource.references]))
