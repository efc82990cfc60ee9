"""Cursors: they come back as they went, and nothing else is taken for one."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulk_pipelines.engine.items.cursors import Position, decode, encode
from bulk_pipelines.errors import InvalidInput

SECRET = b"a secret of the database"
SCOPE = "job:J20260110_000001:DLQ"

zones = st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu"), timezone(-timedelta(hours=11))])
moments = st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=zones)  # noqa: DTZ001 - zones are drawn
positions = st.builds(Position, moments, st.integers(1, 2**63 - 1))
scopes = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@given(scopes, positions)
def test_a_position_comes_back(scope: str, position: Position) -> None:
    cursor = encode(SECRET, scope, position)
    back = decode(SECRET, scope, cursor)
    assert (back.updated_at, back.item_id) == (position.updated_at.astimezone(UTC), position.item_id)
    assert cursor.isascii()
    assert not set(cursor) & set("+/=&?# \n")


@given(positions, zones)
def test_the_time_zone_of_a_session_is_not_in_it(position: Position, zone: timezone) -> None:
    elsewhere = Position(position.updated_at.astimezone(zone), position.item_id)
    assert encode(SECRET, SCOPE, elsewhere) == encode(SECRET, SCOPE, position)


def test_the_hour_that_comes_twice() -> None:
    """When clocks go back, two moments read the same; a cursor tells them apart."""
    first, second = (datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin")) for fold in (0, 1))
    one, other = (decode(SECRET, SCOPE, encode(SECRET, SCOPE, Position(each, 1))) for each in (first, second))
    assert other.updated_at - one.updated_at == timedelta(hours=1)


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \0é"


@settings(max_examples=10)
@given(positions)
def test_any_other_character_anywhere_is_refused(position: Position) -> None:
    cursor = encode(SECRET, SCOPE, position)
    for place in range(len(cursor)):
        for letter in LETTERS:
            if letter != cursor[place]:
                refused(cursor[:place] + letter + cursor[place + 1 :])


@given(positions, st.text(LETTERS, min_size=1, max_size=4), st.data())
def test_anything_more_or_less_is_refused(position: Position, more: str, data: st.DataObject) -> None:
    cursor = encode(SECRET, SCOPE, position)
    place = data.draw(st.integers(0, len(cursor)))
    refused(cursor[:place] + more + cursor[place:])
    refused(cursor[:place] + cursor[place + 1 :] if place < len(cursor) else cursor[:-1])


@given(positions, scopes)
def test_a_cursor_is_good_for_its_listing_only(position: Position, scope: str) -> None:
    with pytest.raises(InvalidInput, match="after: is not a cursor of this listing"):
        decode(SECRET, scope + ":", encode(SECRET, scope, position))


@given(positions)
def test_a_cursor_is_good_for_its_database_only(position: Position) -> None:
    with pytest.raises(InvalidInput, match="after"):
        decode(b"another secret", SCOPE, encode(SECRET, SCOPE, position))


@pytest.mark.parametrize("cursor", ["", "x", "é", "\0", "=", "null", "[1, 2]", "A" * 10_000, 3, None, b"abcd", ["x"]])
def test_what_never_was_a_cursor(cursor: str) -> None:
    refused(cursor)


def refused(cursor: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(SECRET, SCOPE, cursor)
    assert caught.value.field == "after"
