"""Lines of listings as real servers write them."""

from datetime import UTC, datetime

import pytest

from bulk_pipelines.storage.ftp.listing import NO_SIZE, Listed, facts, listed, moment


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "type=file;size=5;modify=20260102030405; a b.csv",
            Listed("a b.csv", "file", 5, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ),
        (
            "Type=dir;Modify=20260102030405.123;UNIX.mode=0755; in",
            Listed("in", "folder", 0, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ),
        (" Type=cdir;Perm=el; .", Listed(".", "other", 0, None)),
        ("type=OS.unix=slink:/x;size=3; link", Listed("link", "other", 3, None)),
        ("size=7;type=file;  leading", Listed(" leading", "file", 7, None)),
    ],
)
def test_mlsd(line: str, expected: Listed) -> None:
    assert facts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "-rw-r--r--    1 1000     1000         1234 Jan 02 03:04 users 1.csv",
            Listed("users 1.csv", "file", 1234, None),
        ),
        ("drwxr-xr-x    2 ftp      ftp          4096 Jan 02  2026 in", Listed("in", "folder", 4096, None)),
        ("lrwxrwxrwx    1 0        0               4 Jan 02  2026 a -> b", Listed("a -> b", "other", 4, None)),
        ("-rw-rw-rw-   1 owner    group    5000000000 Dec 31 23:59 big", Listed("big", "file", 5_000_000_000, None)),
        ("-rwxr-xr-x+ 1 a b 0 Feb 29 2024  two blanks", Listed(" two blanks", "file", 0, None)),
        ("01-02-26  03:04AM       <DIR>          in", Listed("in", "folder", 0, None)),
        ("01-02-2026  15:04             123456 users.csv", Listed("users.csv", "file", 123456, None)),
        ("total 12", None),
        ("", None),
    ],
)
def test_list(line: str, expected: Listed | None) -> None:
    assert listed(line) == expected


def test_times() -> None:
    assert moment("20260102030405.999") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert moment("") is None
    assert moment("yesterday") is None
    assert moment("99999999999999") is None


@pytest.mark.parametrize("size", ["-5", "many", "1e3", "٣", "9" * 5_000, ""])
def test_a_size_that_makes_no_sense_is_none(size: str) -> None:
    """The line may be the rest of a name with a line break in it, written so on purpose."""
    assert facts(f"type=file;size={size};modify=20260101000000; a.csv").size == NO_SIZE
    found = listed(f"-rw-r--r--   1 ftp ftp {'9' * 5_000} Jan 01 00:00 a.csv")
    assert found is not None
    assert found.size == NO_SIZE
