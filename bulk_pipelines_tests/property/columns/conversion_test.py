"""Conversions by columns agree with Python's own, whatever stands beside a value."""

import json
import uuid
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bulk_pipelines.columns import text_lists, timestamps, uuids
from bulk_pipelines_tests.scenes.today import examples

times = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31))  # noqa: DTZ001 - the zone is drawn beside it
zones = st.sampled_from(["", "Z", "+00", "+02:00", "-0730", "+14:00", "-23:59"])
digits = st.integers(0, 6)


def written(time: datetime, zone: str, places: int, separator: str) -> str:
    fraction = f".{time.microsecond:06}"[: places + 1] if places else ""
    return f"{time.year:04}-{time:%m-%d}{separator}{time:%H:%M:%S}{fraction}{zone}"


def expected(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.builds(written, times, zones, digits, st.sampled_from("T ")), min_size=1), st.booleans())
def test_times(texts: list[str], with_bad_one: bool) -> None:
    column = pa.array([*texts, "no time", None] if with_bad_one else texts)
    found = timestamps.convert(column).to_pylist()
    assert found == [expected(text) for text in texts] + [None, None] * with_bad_one


near_times = st.from_regex(
    r"\A[0-3]\d{3}-[01]\d-[0-3]\d([T ][0-2]\d(:[0-6]\d(:[0-6]\d(\.\d{1,9})?)?)?(Z|[+-][0-2]\d(:?[0-6]\d)?)?)?\Z"
)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(near_times, min_size=1, max_size=5))
def test_a_time_is_one_alone_and_among_others(texts: list[str]) -> None:
    """Arrow reads a column of one form at once, and we the others: both must draw the same line."""
    alone = [timestamps.convert(pa.array([text])).to_pylist()[0] for text in texts]
    assert timestamps.convert(pa.array(texts)).to_pylist() == alone
    assert timestamps.convert(pa.array([*texts, "x"])).to_pylist() == [*alone, None]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(), st.uuids().map(str), st.uuids().map(lambda each: str(each).upper()), st.text("0aG-", max_size=40)
        )
    )
)
def test_ids(texts: list[str | None]) -> None:
    found = uuids.to_text(uuids.parse(pa.array(texts, pa.string()))).to_pylist()
    assert found == [canonical(text) for text in texts]


def canonical(text: str | None) -> str | None:
    try:
        value = str(uuid.UUID(text))
    except ValueError:
        return None
    except TypeError:
        return None
    return value if text is not None and text.lower() == value else None


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.lists(st.text(max_size=8), max_size=4)), min_size=1), st.booleans(), st.booleans()
)
def test_lists(lists: list[list[str] | None], ascii_only: bool, with_bad_one: bool) -> None:
    texts = [None if each is None else json.dumps(each, ensure_ascii=ascii_only, indent=1) for each in lists]
    bad = ['["\\ud800"]', "[1]", '{"a": 1}', "[", '["a",]'] if with_bad_one else []
    found = text_lists.parse(pa.array([*texts, *bad], pa.string())).to_pylist()
    assert found == [*lists, *[None] * len(bad)]
