"""The seed's decision, at its borders."""

from datetime import date, timedelta

import pytest

from bulk_pipelines.distribution.files.reuse import ReusePolicy
from bulk_pipelines.distribution.request import Input

TODAY = date(2024, 3, 8)


@pytest.mark.parametrize(
    ("age", "days", "allowed"),
    [(8, 7, True), (7, 7, True), (6, 7, False), (0, 7, False), (-3, 7, False), (0, 0, True), (-1, 0, False)],
)
def test_only_data_that_is_old_enough(age: int, days: int, allowed: bool) -> None:
    wanted = Input("ABC", TODAY - timedelta(age), "CLS")
    assert ReusePolicy(True, days).allows(wanted, TODAY) is allowed
    assert not ReusePolicy(False, days).allows(wanted, TODAY)
