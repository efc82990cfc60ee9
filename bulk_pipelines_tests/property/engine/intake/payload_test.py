"""JSON from outside: whatever is let through is stored by PostgreSQL and comes back equal; the rest names its field."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput

good_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
numbers = st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
good = st.recursive(
    st.none() | st.booleans() | numbers | good_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(good_text, inner, max_size=4),
    max_leaves=20,
)
good_objects = st.dictionaries(good_text, good, max_size=5)

BAD: dict[str, Any] = {
    "not a number": math.nan,
    "infinite": math.inf,
    "a NUL in a text": "a\0b",
    "a NUL in a key": {"a\0b": 1},
    "half a surrogate pair": "\ud83d",
    "the wrong half": "x\udc00y",
    "half a surrogate pair in a key": {"\ud83d": 1},
    "both halves apart": "\ud83d\ude00",
    "a number as a key": {1: "one"},
    "true as a key": {True: 1},
    "nothing as a key": {None: 1},
    "a float as a key": {1.5: 1},
    "bytes": b"x",
    "a set": {1, 2},
    "an object of Python's": object(),
    "a number too long to write": 10**5_000,
}


@given(good_objects)
def test_what_is_good_is_written_and_read_back_equal(value: dict[str, Any]) -> None:
    assert json.loads(payload.encode("input", value)) == value


@given(st.lists(st.none() | good_objects))
def test_many_are_written_as_one_array(values: list[dict[str, Any] | None]) -> None:
    assert json.loads(payload.encode_all("result", values)) == values


def test_many_are_together_larger_than_one_may_be() -> None:
    values = [{"x": "é" * 300_000}] * 4
    assert json.loads(payload.encode_all("result", values)) == values


def among_others(field: str, value: Any) -> str:
    return payload.encode_all(field, [{"x": 1}, None, value, {}])


@given(good_objects)
def test_equal_objects_have_one_canonical_text(value: dict[str, Any]) -> None:
    turned = dict(reversed(list(value.items())))
    assert payload.canonical("params", value) == payload.canonical("params", turned)


@pytest.mark.parametrize("where", ["alone", "in a list", "in an object", "deep"])
@pytest.mark.parametrize("what", BAD)
def test_what_is_bad_names_its_field(what: str, where: str) -> None:
    bad = BAD[what]
    value = {"alone": {"x": bad}, "in a list": {"x": [1, bad]}, "in an object": {"x": {"y": bad}}}.get(where)
    value = value or {"x": [{"y": [{"z": bad}]}]}
    for check in (payload.encode, payload.canonical, among_others):
        with pytest.raises(InvalidInput, match=r"^items\[3\]\.input: ") as caught:
            check("items[3].input", value)
        assert caught.value.field == "items[3].input"
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300
        str(caught.value).encode()


@pytest.mark.parametrize("bad", [{1: "one"}, {True: 1, "x": 2}, {None: 1}, {("a", "b"): 1}, {b"x": 1}])
def test_keys_that_json_would_quietly_change_are_refused(bad: dict[Any, Any]) -> None:
    for check in (payload.encode, among_others):
        with pytest.raises(InvalidInput, match="params"):
            check("params", bad)


@pytest.mark.parametrize("value", [[], [1], "text", 1, None, True, 1.5, [("a", 1)]])
def test_only_objects(value: object) -> None:
    for check in (payload.encode, among_others) if value is not None else (payload.encode,):
        with pytest.raises(InvalidInput, match="input: must be a JSON object"):
            check("input", value)


def test_a_circle_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["x"] = [circle]
    with pytest.raises(InvalidInput, match="input"):
        payload.encode("input", circle)


def nested(depth: int) -> dict[str, Any]:
    """Return objects and lists in turn, so many in each other, the outermost counted."""
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value if isinstance(value, dict) else {"x": value[0]}


@pytest.mark.parametrize("depth", [payload.MAX_DEPTH + 1, 900, 100_000])
def test_too_deep_is_refused_whatever_the_interpreter_can_hold(depth: int) -> None:
    with pytest.raises(InvalidInput, match="input: is nested"):
        payload.encode("input", nested(depth | 1))
    with pytest.raises(InvalidInput):
        among_others("input", nested(depth | 1))


def test_deep_enough_is_taken() -> None:
    payload.encode("input", nested(payload.MAX_DEPTH - 1))


@pytest.mark.parametrize(
    "text", ["x", "é", "😀", "\n", "a\0"], ids=["one byte", "two bytes", "four bytes", "escaped", "bad as well"]
)
def test_ten_megabytes_are_refused_by_their_size(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"input: is larger than 1,048,576 bytes"):
        payload.encode("input", {"x": text * (10 * 1024 * 1024 // len(text))})


@given(st.integers(10, 60), st.sampled_from("xé😀"))
def test_the_bound_is_in_bytes(most: int, letter: str) -> None:
    """A text of all letters that fit is taken, and one letter more is refused."""
    room = (most - len('{"k":""}')) // len(letter.encode())
    payload.encode("input", {"k": letter * room}, most)
    with pytest.raises(InvalidInput, match="is larger than"):
        payload.encode("input", {"k": letter * (room + 1)}, most)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=250))
def test_good_texts_pass_unchanged(text: str) -> None:
    assert payload.text("owner", text) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "owner: is empty"),
        ("a\0", "owner: contains a NUL"),
        ("\ud800", "owner: contains half a surrogate"),
        ("x" * 1_001, "owner: is longer than 1,000 bytes"),
        ("😀" * 251, "owner: is longer than 1,000 bytes"),
        (None, "owner: must be a text, not NoneType"),
        (3, "owner: must be a text, not int"),
        (b"x", "owner: must be a text, not bytes"),
    ],
)
def test_bad_texts_name_their_field(value: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        payload.text("owner", value)
    assert str(caught.value).startswith(message)


@given(st.integers())
@example(0)
@example(-1)
@example(1_001)
def test_sizes(value: int) -> None:
    if 1 <= value <= 1_000:
        assert payload.size("size", value, 1_000) == value
    else:
        with pytest.raises(InvalidInput, match=r"^size: must be between 1 and 1,000"):
            payload.size("size", value, 1_000)


@pytest.mark.parametrize("value", ["10", 1.0, None, True, [], math.nan])
def test_sizes_are_whole_numbers(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"^size: must be a whole number"):
        payload.size("size", value, 1_000)
