"""The numbers of an XLSX sheet are read as what they mean, whatever digits Excel writes."""

import re

import pyarrow as pa
import pytest

from bulk_pipelines.formats import xlsx_rows


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("918.57000000000005", "918.57"),
        ("-9.9900000000000002", "-9.99"),
        ("0.10000000000000001", "0.1"),
        ("1.5E+17", "150000000000000000"),
        # Libraries write sixteen digits, of which Excel shows fifteen: the last one is noise of a calculation.
        ("918.5700000000001", "918.57"),
        ("0.30000000000000004", "0.3"),
        ("-12345678901.120001", "-12345678901.12"),
        ("2.9999999999999996", "3"),
        # All digits of these say something.
        ("3.141592653589793", "3.141592653589793"),
        ("0.1234567890123456", "0.1234567890123456"),
        ("1234567890123456.5", "1234567890123456.5"),
        ("12345678901234567", "12345678901234567"),
        # These have no fewer digits, or more than a number of a cell has.
        ("918.57", "918.57"),
        ("1234567890123456789", "1234567890123456789"),
        ("12345678901234567.89", "12345678901234567.89"),
    ],
)
def test_numbers(written: str, meant: str) -> None:
    found = xlsx_rows.plainly(written) if re.search(xlsx_rows.ODD_NUMBER, written) else written
    assert found == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("46027", "2026-01-05"),
        ("46027.5", "2026-01-05T12:00:00"),
        ("46027.333333333336", "2026-01-05T08:00:00"),
        ("46027.999994212965", "2026-01-05T23:59:59.500"),
        ("0.5", "12:00:00"),
        # A moment before midnight stays in its day, for as long as a number can tell it from midnight.
        ("46027.99999998843", "2026-01-05T23:59:59.999"),
        ("46027.999999998843", "2026-01-05T23:59:59.999900"),
        ("46027.999999999985", "2026-01-05T23:59:59.999999"),
        ("0.999999999988426", "23:59:59.999999"),
        ("0.99999999884259", "23:59:59.999900"),
        ("32000.999999999988", "1987-08-11T23:59:59.999999"),
        # What misses it by less than the digits of a number tell, or as a sum of hours does, is noise.
        ("46027.999999999993", "2026-01-06"),
        ("46027.9999999999", "2026-01-06"),
        ("46028.0000000001", "2026-01-06"),
        # A time of day has digits enough.
        ("0.99999999999999989", "23:59:59.999999"),
        ("0.9999999999", "23:59:59.999991"),
    ],
)
@pytest.mark.parametrize("among", [[], ["46027.25", "x"]])
def test_moments(written: str, meant: str, among: list[str]) -> None:
    found = xlsx_rows.moments(pa.array([written, *among]), False)
    assert found[0].as_py() == meant
