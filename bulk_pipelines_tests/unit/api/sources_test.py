"""Which addresses lie in a folder that BULK_API_SOURCES lists."""

import pytest

from bulk_pipelines.api.files.sources import is_below
from bulk_pipelines.storage.addresses import parse


@pytest.mark.parametrize(
    ("folder", "address"),
    [
        ("s3://open", "s3://open/a.csv"),
        ("s3://open/in", "s3://open/in/2026/a.csv"),
        ("s3://open/in/", "s3://open/in/a.csv"),
        ("sftp://h", "sftp://h/a.csv"),
        ("sftp://H/in", "sftp://h/in/a.csv"),
        ("sftp://feed@h:2222/in", "sftp://feed@h:2222/in/a..b.csv"),
        ("sftp://h//srv/in", "sftp://h//srv/in/a.csv"),
        ("ftp://h/in", "ftp://h/in/%61.csv"),
    ],
)
def test_what_lies_below(folder: str, address: str) -> None:
    assert is_below(parse(address), parse(folder))


@pytest.mark.parametrize(
    ("folder", "address"),
    [
        ("s3://open/in", "s3://open/inner/a.csv"),
        ("s3://open/in", "s3://open/in"),
        ("s3://open/in", "s3://open/in/../a.csv"),
        ("s3://open/in", "s3://other/in/a.csv"),
        ("sftp://h", "sftp://h//etc/passwd"),
        ("sftp://h", "sftp://h/%2Fetc/passwd"),
        ("sftp://h", "sftp://h/../a.csv"),
        ("sftp://h/in", "sftp://h/in//etc/passwd"),
        ("sftp://h/in", "sftp://h/in/%2e%2e/a.csv"),
        ("sftp://h/in", "sftp://root@h/in/a.csv"),
        ("sftp://feed@h/in", "sftp://h/in/a.csv"),
        ("sftp://feed@h/in", "sftp://feed:guess@h/in/a.csv"),
        ("sftp://h/in", "sftp://h:2222/in/a.csv"),
        ("sftp://h/in", "ftp://h/in/a.csv"),
        ("ftp://h/in", "ftps://h/in/a.csv"),
    ],
)
def test_what_lies_elsewhere(folder: str, address: str) -> None:
    assert not is_below(parse(address), parse(folder))
