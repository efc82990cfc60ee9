"""The numbers of an XLSX sheet are read as what they mean, whatever digits Excel writes."""

import re

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
