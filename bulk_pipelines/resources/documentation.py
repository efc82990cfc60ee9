"""Making the page that describes each resource, from the declarations."""

from bulk_pipelines import resources
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column, Resource
from bulk_pipelines.resources.reasons import REASONS

ABOUT = """\
Users, articles and comments are declared once, in `bulk_pipelines/resources/`. Reading, checking, loading, exports,
filters and this page follow the declaration; the tables hold the same rules as constraints. A file must have every
required column, may leave out the others, and may have them in any order."""


def page(notice: str) -> str:
    parts = ["# Resources", notice, ABOUT]
    for resource in resources.RESOURCES:
        parts += section(resource)
    parts += ["## How values are written", bullets([f"{kind.value}: {kind.text_form}" for kind in ColumnKind])]
    parts += [
        "## Reasons for rejecting a record",
        table(["code", "meaning"], [[f"`{code}`", text] for code, text in REASONS.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def section(resource: Resource) -> list[str]:
    parts = [f"## {resource.name}", resource.says]
    parts.append(table(["column", "kind", "", "what it is"], [row(column) for column in resource.columns]))
    rules = [f"`{column.name}`: {rule.says} (`{rule.code}`)" for column in resource.columns for rule in column.rules]
    rules += [
        f"`{key.column}` is unique{', whatever its case' if key.ignores_case else ''} (`{key.code}`)"
        for key in resource.keys
    ]
    rules += [
        f"`{each.column}` is the id of one of the {each.resource} (`{each.code}`)" for each in resource.references
    ]
    rules += [f"{rule.says} (`{rule.code}`)" for rule in resource.record_rules]
    return [*parts, bullets(rules)]


def row(column: Column) -> list[str]:
    stand_in = f"if missing: {column.fill.value}" if column.fill else "may be missing"
    need = "required" if column.required else stand_in
    return [f"`{column.name}`", column.kind.value, need, column.says]


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
