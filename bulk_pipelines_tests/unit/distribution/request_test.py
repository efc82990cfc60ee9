"""What may be asked for, and how a refusal is worded."""

from typing import Any

import pytest

from bulk_pipelines.distribution import request
from bulk_pipelines.distribution.request import Input
from bulk_pipelines.errors import InvalidInput

GOOD = {"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}


def refused(given: object) -> str:
    with pytest.raises(InvalidInput) as caught:
        request.checked(given)
    return str(caught.value)


@pytest.mark.parametrize(
    "index_key", ["ABC", ".SPX", "^GSPC", "MSCI World", "a_b", "Überindex", "日経", "..", "a'b", "%41"]
)
def test_names_that_indexes_have(index_key: str) -> None:
    (found,) = request.checked([GOOD | {"indexKey": index_key}])
    assert found.name == f"{index_key}_20240202_CLS"
    assert request.stored(found.as_json()) == found


@pytest.mark.parametrize("day", [20240202, "20240202"])
def test_a_date_is_a_number_or_its_digits(day: object) -> None:
    (found,) = request.checked([GOOD | {"effectiveDate": day}])
    assert found.as_json() == GOOD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indexKey": ""}, "inputs[0].indexKey: '' is empty or has blanks around it"),
        ({"indexKey": " A"}, "inputs[0].indexKey: ' A' is empty or has blanks around it"),
        ({"indexKey": 7}, "inputs[0].indexKey: must be a text, not int"),
        ({"indexKey": None}, "inputs[0].indexKey: must be a text, not NoneType"),
        ({"indexKey": "a" * 101}, "inputs[0].indexKey: is longer than 100 characters"),
        ({"effectiveDate": 20240230}, "inputs[0].effectiveDate: 20240230 is not a day as YYYYMMDD"),
        ({"effectiveDate": 2024022}, "inputs[0].effectiveDate: 2024022 is not a day as YYYYMMDD"),
        ({"effectiveDate": "00240202"}, "inputs[0].effectiveDate: '00240202' is not a day as YYYYMMDD"),
        (
            {"effectiveDate": 10**5_000},
            "inputs[0].effectiveDate: a number of more than 8 digits is not a day as YYYYMMDD",
        ),
        ({"effectiveDate": True}, "inputs[0].effectiveDate: True is not a day as YYYYMMDD"),
        ({"effectiveDate": 20240202.0}, "inputs[0].effectiveDate: 20240202.0 is not a day as YYYYMMDD"),
        ({"effectiveDate": "２０２４０２０２"}, "inputs[0].effectiveDate: '２０２４０２０２' is not a day as YYYYMMDD"),
        ({"asofindicator": ""}, "inputs[0].asofindicator: '' is not up to 32 letters, digits and hyphens"),
        ({"asofindicator": "A_B"}, "inputs[0].asofindicator: 'A_B' is not up to 32 letters, digits and hyphens"),
        ({"asofindicator": ["CLS"]}, "inputs[0].asofindicator: must be a text, not list"),
        ({"index": 1}, "inputs[0].index: is not known; an input has indexKey, effectiveDate, asofindicator"),
    ],
)
def test_a_refusal_names_the_field(change: dict[str, Any], message: str) -> None:
    assert refused([GOOD | change]) == message


@pytest.mark.parametrize(
    "index_key", ["../x", "a/b", "/etc/passwd", "a\\b", "a\nb", "a\0b", "\u202eb", "a\u2028b", "\ud800", "日" * 90]
)
def test_nothing_leaves_its_folder(index_key: str) -> None:
    assert refused([GOOD | {"indexKey": index_key}]).startswith("inputs[0].indexKey: ")


@pytest.mark.parametrize("asof", ["../x", "a/b", "..", "é", "A B", "A" * 33])
def test_an_asof_indicator_is_plain(asof: str) -> None:
    assert refused([GOOD | {"asofindicator": asof}]).startswith("inputs[0].asofindicator: ")


@pytest.mark.parametrize("name", ["indexKey", "effectiveDate", "asofindicator"])
def test_what_is_missing_is_named(name: str) -> None:
    assert refused([GOOD, {k: v for k, v in GOOD.items() if k != name}]) == f"inputs[1].{name}: is missing"


def test_duplicates_are_refused_by_name() -> None:
    others = [GOOD | {"indexKey": f"I{n}"} for n in range(5)]
    assert refused([*others, GOOD, GOOD]) == "inputs[6]: ABC 20240202 CLS is a duplicate of inputs[5]"
    # The same day in another form is the same file.
    assert "inputs[1]: ABC 20240202 CLS" in refused([GOOD, GOOD | {"effectiveDate": "20240202"}])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "inputs: must be between 1 and 100,000, not 0"),
        ([GOOD] * 100_001, "inputs: must be between 1 and 100,000, not 100,001"),
        ("ABC", "inputs: must be a list, not str"),
        (None, "inputs: must be a list, not NoneType"),
        (["ABC"], "inputs[0]: must be an object with indexKey, effectiveDate, asofindicator, not str"),
    ],
)
def test_what_is_no_list_of_inputs(given: object, message: str) -> None:
    assert refused(given) == message


def test_the_order_is_kept() -> None:
    given = [GOOD | {"indexKey": key} for key in ("C", "A", "B")]
    assert [each.index_key for each in request.checked(given)] == ["C", "A", "B"]


def test_an_input_is_shown_as_it_was_asked_for() -> None:
    found = Input("ABC", request.day_of(20240202), "ADJCLS")
    assert found.shown == "ABC 20240202 ADJCLS"
    assert list(found.as_json()) == ["indexKey", "effectiveDate", "asofindicator"]
