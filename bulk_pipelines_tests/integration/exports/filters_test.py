"""What each filter selects, and in which order rows come."""

import uuid
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine

from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines_tests.scenes.export_files import exported, insert, read

ANN, BOB = uuid.UUID(int=1), uuid.UUID(int=2)
DAY = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 32)]


@pytest.fixture
def filled(engine: Engine) -> Engine:
    insert(
        engine,
        "users",
        [
            {"id": ANN, "email": "Ann@Example.com", "name": "Ann", "role": "author", "active": True},
            {"id": BOB, "email": "bob@example.com", "name": "Bob", "role": "reader", "active": False},
        ],
    )

    def article(
        number: int, title: str, description: str | None, tags: list[str], published: datetime | None
    ) -> dict[str, object]:
        return {
            "id": uuid.UUID(int=100 + number),
            "slug": f"article-{number}",
            "title": title,
            "description": description,
            "body": "text",
            "author_id": ANN if number < 3 else BOB,
            "tags": tags,
            "published_at": published,
            "status": "published" if published else "draft",
            "created_at": DAY[number],
        }

    insert(
        engine,
        "articles",
        [
            article(1, "Big data for small teams", "about", ["python", "data"], DAY[5]),
            article(2, "The data is big", "", ["sql"], DAY[6]),
            article(3, "100% of nothing_at_all", None, [], None),
            article(4, "Übergrößen, Großes", None, ["a,b", "python"], DAY[6]),
        ],
    )
    return engine


ARTICLES = {
    "slug=article-2": {2},
    "slug!=article-2": {1, 3, 4},
    "description=about": {1},
    "description!=about": {2, 3, 4},
    'description=""': {2},
    "description is null": {3, 4},
    "description is not null": {1, 2},
    "description not in about": {2, 3, 4},
    "slug in article-1,article-4,article-9": {1, 4},
    "slug not in article-1,article-4": {2, 3},
    "slug^=article-": {1, 2, 3, 4},
    "title^=100%": {3},
    "title^=100_": set(),
    "title^=1000": set(),
    "title^=The": {2},
    "title^=the": set(),
    "title<B": {3},
    "title~=DATA": {1, 2},
    "title~=data big": {1, 2},
    'title~="""big data"""': {1},
    "title~=data -small": {2},
    "title~=small or nothing_at_all": {1, 3},
    "title~=großes": {4},
    "title~=dat": set(),
    "tags~=python": {1, 4},
    "tags~=a,b": {4},
    "tags~=py": set(),
    "tags is null": set(),
    f"author_id={ANN}": {1, 2},
    f"author_id in {BOB}": {3, 4},
    f"id>{uuid.UUID(int=102)}": {3, 4},
    "created_at>=2026-01-04": {3, 4},
    "created_at>2026-01-04": {4},
    "created_at<2026-01-03T00:00:00+00:00": {1},
    "created_at<=2026-01-03T01:00:00+01:00": {1, 2},
    "published_at in 2026-01-07,2026-01-06": {1, 2, 4},
    "published_at!=2026-01-07": {1, 3},
}

USERS = {
    "email=ann@example.COM": {"Ann"},
    "email in ANN@example.com,BOB@example.com": {"Ann", "Bob"},
    "email!=ann@example.com": {"Bob"},
    "email^=ANN@": {"Ann"},
    "active=true": {"Ann"},
    "active!=true": {"Bob"},
    "name~=bob": {"Bob"},
}


@pytest.mark.parametrize("format_", [Format.CSV, Format.PARQUET])
def test_what_a_filter_selects(filled: Engine, format_: Format) -> None:
    def selected(where: str) -> set[int]:
        request = ExportRequest.parse(
            {"resource": "articles", "format": format_.value, "fields": "slug", "where": [where]}
        )
        return {int(slug[-1]) for (slug,) in read(filled, request, exported(filled, request))}

    assert {where: selected(where) for where in ARTICLES} == ARTICLES


def test_keys_without_case_and_truth(filled: Engine) -> None:
    def selected(where: str) -> set[str]:
        request = ExportRequest.parse({"resource": "users", "fields": "name", "where": [where]})
        return {name for (name,) in read(filled, request, exported(filled, request))}

    assert {where: selected(where) for where in USERS} == USERS


def test_all_filters_hold_at_once(filled: Engine) -> None:
    request = ExportRequest.parse(
        {"resource": "articles", "fields": "slug", "where": ["tags~=python", "created_at>=2026-01-03"]}
    )
    assert read(filled, request, exported(filled, request)) == [("article-4",)]


@pytest.mark.parametrize("format_", Format)
def test_fields_come_in_the_order_asked_and_rows_too(filled: Engine, format_: Format) -> None:
    request = ExportRequest.parse(
        {"resource": "articles", "format": format_.value, "fields": "title,slug", "order": "-published_at,slug"}
    )
    found = read(filled, request, exported(filled, request))
    # No value is the greatest, as in PostgreSQL.
    assert [slug for _, slug in found] == ["article-3", "article-2", "article-4", "article-1"]
    assert found[0][0] == "100% of nothing_at_all"


def test_equal_rows_are_ordered_by_their_id(filled: Engine) -> None:
    request = ExportRequest.parse({"resource": "articles", "fields": "slug", "order": "status"})
    assert [row[0][-1] for row in read(filled, request, exported(filled, request))] == ["3", "1", "2", "4"]
