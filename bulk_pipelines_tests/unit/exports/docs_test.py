"""docs/exports.md says what the code does."""

import re

from bulk_pipelines.exports import filters
from bulk_pipelines.exports.filters import OPERATORS, Operator
from bulk_pipelines.exports.read import snapshot
from bulk_pipelines.exports.request import NAMES, QUERY, Compression, Format
from bulk_pipelines.formats import xlsx, xlsx_cells
from bulk_pipelines.resources import RESOURCES
from bulk_pipelines.settings import CHECKOUT

TEXT = (CHECKOUT / "docs" / "exports.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]*)` \|", text, re.MULTILINE)


def test_every_parameter_is_described() -> None:
    resource, *others = NAMES
    assert first_cells(section("What can be asked for")) == [resource, "table", QUERY, *others]


def test_every_filter_shown_is_one() -> None:
    shown = [filters.parse(text) for text in first_cells(section("Filters"))]
    declared = {column.name: resource for resource in RESOURCES for column in resource.columns}
    for each in shown:
        filters.check(each, declared[each.field])
    assert {each.operator for each in shown} >= set(Operator) - filters.RANGES


def test_operators_of_each_kind() -> None:
    found = {
        kind: set(re.findall(r"`([^`]*)`", operators))
        for kind, operators in re.findall(
            r"^\| ([a-z ]+) \| (`=`.*|`~=`.*|`is null`.*) \|$", section("Filters"), re.MULTILINE
        )
    }
    assert found == {kind.value: {each.value for each in allowed} for kind, allowed in OPERATORS.items()}


def test_columns_whose_words_can_be_looked_for() -> None:
    said = re.search(r"Words can be looked for in (.*)\.", TEXT)
    assert said
    assert re.findall("`([^`]*)`", said[1]) == sorted(
        f"{resource.name}.{column.name}" for resource in RESOURCES for column in resource.columns if column.searchable
    )


def test_names_and_limits() -> None:
    asked = section("What can be asked for")
    assert set(re.findall("`([^`]*)`", asked)) >= set(Format) | set(Compression)
    assert f"{xlsx.SHEET_ROWS:,} rows" in TEXT
    assert f"{xlsx_cells.CELL_CHARACTERS:,} characters" in TEXT
    assert f"{snapshot.ROWS_WORTH_CUTTING:,} rows or more" in TEXT
    assert f"ranges of blocks of {snapshot.PART >> 20} MB" in TEXT
