"""The declarations hold together, and the documentation says the same."""

from pathlib import Path

import pytest

from bulk_pipelines import reference, resources
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.resources.reasons import REASONS

DOCS = Path(__file__).parents[2] / "docs"

# Given by the reading of files and by the table, not by any column's declaration.
OF_ALL_RESOURCES = {
    "missing_field",
    "malformed_record",
    "unknown_field",
    "record_too_large",
    "failed_expression",
    "invalid_encoding",
    "invalid_character",
    "refused_by_table",
}


def codes(resource: Resource) -> set[str]:
    found = {column.code for column in resource.columns}
    found |= {rule.code for column in resource.columns for rule in column.rules}
    found |= {key.code for key in resource.keys} | {each.code for each in resource.references}
    return found | {rule.code for rule in resource.record_rules}


def test_every_code_is_explained_and_every_explanation_is_of_a_code() -> None:
    used = OF_ALL_RESOURCES.union(*map(codes, resources.RESOURCES))
    assert used <= set(REASONS)
    # The codes of kinds and of reflected tables are for the columns of tables that are adopted.
    adopted = {kind.code for kind in ColumnKind} | {
        "duplicate_key",
        "invalid_reference",
        "invalid_value",
        "does_not_fit",
    }
    assert set(REASONS) - used <= adopted


@pytest.mark.parametrize("resource", resources.RESOURCES, ids=lambda each: each.name)
def test_keys_references_and_rules_name_columns_that_are_there(resource: Resource) -> None:
    names = {key.column for key in resource.keys} | {reference.column for reference in resource.references}
    names |= {name for rule in resource.record_rules for name in (rule.column, rule.when_column)}
    assert names <= set(resource.column_names)
    before = [each.name for each in resources.RESOURCES[: resources.RESOURCES.index(resource)]]
    assert {reference.resource for reference in resource.references} <= set(before)


def test_an_unknown_resource_names_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"^resource: .*'people'.*users, articles, comments") as found:
        resources.find("people")
    assert found.value.field == "resource"


def test_who_refers_to_whom() -> None:
    assert [(other.name, column) for other, column in resources.referrers(resources.find("users"))] == [
        ("articles", "author_id"),
        ("comments", "user_id"),
    ]


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "resources.md").read_text() == reference.pages()["resources.md"], "make docs"
