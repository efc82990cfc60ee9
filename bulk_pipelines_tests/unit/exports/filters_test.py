"""The grammar of filters, and what a resource allows."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import filters
from bulk_pipelines.exports.filters import Filter, Operator
from bulk_pipelines.resources.articles import ARTICLES
from bulk_pipelines.resources.declaration import Column
from bulk_pipelines.resources.users import USERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("role=admin", Filter("role", Operator.EQUAL, ("admin",))),
        ("  role  =  admin ", Filter("role", Operator.EQUAL, ("admin",))),
        ("role!=admin", Filter("role", Operator.NOT_EQUAL, ("admin",))),
        ("created_at>=2026-01-01", Filter("created_at", Operator.AT_LEAST, ("2026-01-01",))),
        ("created_at > 2026-01-01T10:00:00Z", Filter("created_at", Operator.MORE, ("2026-01-01T10:00:00Z",))),
        ("created_at<=2026-01-01", Filter("created_at", Operator.AT_MOST, ("2026-01-01",))),
        ("created_at<2026-01-01", Filter("created_at", Operator.LESS, ("2026-01-01",))),
        ("email^=foo", Filter("email", Operator.PREFIX, ("foo",))),
        ('title~=data "big deal" -cloud', Filter("title", Operator.CONTAINS, ('data "big deal" -cloud',))),
        ("name=Hello, world", Filter("name", Operator.EQUAL, ("Hello, world",))),
        ("name=a=b", Filter("name", Operator.EQUAL, ("a=b",))),
        ('name=""', Filter("name", Operator.EQUAL, ("",))),
        ('name=" two  spaces "', Filter("name", Operator.EQUAL, (" two  spaces ",))),
        ('name="""quoted"" twice"', Filter("name", Operator.EQUAL, ('"quoted" twice',))),
        ('name="=1+1"', Filter("name", Operator.EQUAL, ("=1+1",))),
        ("name=line\nbreak", Filter("name", Operator.EQUAL, ("line\nbreak",))),
        ("role in admin,editor", Filter("role", Operator.IN, ("admin", "editor"))),
        ('role IN admin, "a, b" ,""', Filter("role", Operator.IN, ("admin", "a, b", ""))),
        ("role not in admin", Filter("role", Operator.NOT_IN, ("admin",))),
        ("role  NOT   IN  admin", Filter("role", Operator.NOT_IN, ("admin",))),
        ("description is null", Filter("description", Operator.NULL)),
        (" description IS  NOT  NULL ", Filter("description", Operator.NOT_NULL)),
        ("is=in", Filter("is", Operator.EQUAL, ("in",))),
    ],
)
def test_what_people_write(text: str, expected: Filter) -> None:
    assert filters.parse(text) == expected
    assert filters.parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "where"),
        ("role", "where"),
        ("role admin", "where"),
        ("=admin", "where"),
        ("role is nothing", "where"),
        ("1=1", "where"),
        ("role=", "role"),
        ("role in", "where"),
        ("role in ", "role"),
        ("role==admin", "role"),
        ("role=~admin", "role"),
        ("role<>admin", "role"),
        ('name="open', "name"),
        ('name="a"b', "name"),
        ('name="a",b', "name"),
        ("role in a,,b", "role"),
        ("role in a,", "role"),
        ('role in "open,b', "role"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filters.parse(text)
    assert caught.value.field == field


def test_values_are_of_the_columns_kind() -> None:
    def value(text: str) -> object:
        return filters.check(filters.parse(text), ARTICLES)[0]

    assert value("title=x") == "x"
    assert value("id=6BA7B810-9dad-11d1-80b4-00c04fd430c8") == UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    assert value("created_at>=2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert value("created_at>=2026-01-31T12:00:00.5+02:00") == datetime(2026, 1, 31, 10, 0, 0, 500_000, UTC)
    assert value("created_at>=2026-01-31 12:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text, truth in (("true", True), ("F", False), ("1", True), ("False", False)):
        assert filters.check(filters.parse(f"active={text}"), USERS) == (truth,)


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("nothing=1", "nothing", "id, slug, title"),
        ("import_job=1", "import_job", "no such field"),
        ("ctid=(0,1)", "ctid", "no such field"),
        ("id=1", "id", "not a uuid"),
        ("created_at>=yesterday", "created_at", "not a timestamp"),
        ("created_at>=2026-02-30", "created_at", "not a timestamp"),
        ("created_at>=0001-01-01T00:00:00+14:00", "created_at", "not a timestamp"),
        ("created_at^=2026", "created_at", "cannot be asked of a timestamp"),
        ("tags=python", "tags", "cannot be asked of a text list; there are ~=, is null, is not null"),
        ("slug~=word", "slug", "cannot be asked of a text"),
        ("title=a\0b", "title", "NUL"),
        ("title=\ud800", "title", "not a text"),
        ('title~="!?"', "title", "no word"),
        ("title in a,\0", "title", "NUL"),
    ],
)
def test_what_the_resource_does_not_allow_names_the_field(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filters.check(filters.parse(text), ARTICLES)
    assert caught.value.field == field
    assert says in caught.value.message


@pytest.mark.parametrize(
    "condition",
    [
        Filter("title", Operator.EQUAL),
        Filter("title", Operator.EQUAL, ("a", "b")),
        Filter("title", Operator.IN),
        Filter("title", Operator.NULL, ("a",)),
    ],
)
def test_the_wrong_number_of_values_is_refused(condition: Filter) -> None:
    with pytest.raises(InvalidInput, match="does not take"):
        filters.check(condition, ARTICLES)


def test_json_that_is_too_deep_is_no_json() -> None:
    noted = replace(ARTICLES, columns=(*ARTICLES.columns, Column("notes", ColumnKind.JSON, "Notes.")))
    assert filters.check(filters.parse('notes~={"a": 1}'), noted) == ('{"a": 1}',)
    for text in ("{", "[" * 50_000):
        with pytest.raises(InvalidInput, match="is not a"):
            filters.check(filters.parse(f"notes~={text}"), noted)


def test_a_boolean_has_no_ranges() -> None:
    with pytest.raises(InvalidInput, match="active"):
        filters.check(filters.parse("active>false"), USERS)
    with pytest.raises(InvalidInput, match="'maybe' is not a boolean"):
        filters.check(filters.parse("active=maybe"), USERS)
