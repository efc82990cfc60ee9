"""What addresses say, which are refused, and what is shown of them."""

from pathlib import Path

import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import Access, S3Access
from bulk_pipelines.storage.addresses import Address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/data/a b%20.csv", Address("file", "", "/data/a b%20.csv")),
        ("data/x.csv", Address("file", "", str(Path.cwd() / "data/x.csv"))),
        ("file:///data/a%20b.csv", Address("file", "", "/data/a b.csv")),
        ("FILE://localhost/data", Address("file", "", "/data")),
        ("s3://bucket/a%20b?c#d", Address("s3", "bucket", "a%20b?c#d")),
        ("s3://bucket", Address("s3", "bucket", "")),
        ("ftp://host/a/b%20c", Address("ftp", "host", "a/b c")),
        ("ftp://host//abs/x", Address("ftp", "host", "/abs/x")),
        ("ftps://me:p%40ss@host:2121/a", Address("ftps", "host", "a", 2121, "me", "p@ss")),
        ("ftpes://me@[::1]/a", Address("ftpes", "::1", "a", None, "me")),
        ("sftp://host/a#b?c", Address("sftp", "host", "a#b?c")),
        ("sftp://host", Address("sftp", "host", "")),
        ("https://host:8443/a%20b?x=1#part", Address("https", "host", "a%20b?x=1", 8443)),
    ],
)
def test_addresses(url: str, expected: Address) -> None:
    assert addresses.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is empty"),
        ("a\0b", "control character"),
        ("ftp://host/a\r\nDELE b", "control character"),
        ("file:///a%00b", "control character"),
        ("ftp://host/a%0d%0aDELE", "control character"),
        ("file://server/share", "three slashes"),
        ("gs://bucket/x", "gs:// is not an address we know"),
        ("s3://", "names no bucket"),
        ("s3://UPPER/x", "names no bucket"),
        ("s3://a/x", "names no bucket"),
        ("ftp:///x", "names no server"),
        ("ftp://host:port/x", "not a valid address"),
        ("ftp://host:99999/x", "not a valid address"),
        ("http://[::1/x", "not a valid address"),
        ("ftp://host/%ff", "not a valid address"),
    ],
)
def test_no_addresses(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        addresses.parse(url, "source")
    assert caught.value.field == "source"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("/a/b", "/a/b"),
        ("https://host/a@b", "https://host/a@b"),
        ("s3://bucket/a?b", "s3://bucket/a?b"),
        ("ftp://me:s3cret@host/x", "ftp://me@host/x"),
        ("ftp://me:s3:cret@host:21/x", "ftp://me@host:21/x"),
        ("ftp://me:s3/cret@host/x", "ftp://…"),
        ("ftp://me:s3@cret@host/x", "ftp://me@host/x"),
        ("ftp://me:s3cret?@host/x", "ftp://…"),
        ("ftp://me:s3#cret/@host/x", "ftp://…"),
        ("https://host/x?token=s3cret#s3cret", "https://host/x"),
        ("https://host?token=s3cret", "https://host"),
        ("https://me:s3cret@[::1]:80/x", "https://me@[::1]:80/x"),
        ("sftp://host:s3cret", "sftp://…"),
    ],
)
def test_what_is_shown(url: str, shown: str) -> None:
    assert addresses.redacted(url) == shown
    try:
        addresses.parse(url)
    except InvalidInput as error:
        assert "s3cret" not in str(error)  # noqa: PT017
        assert "cret@" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("url", ["s3://bucket/a/../b", "s3://bucket//a", "s3://bucket/", "s3://bucket/a/"])
def test_objects_that_cannot_be(url: str) -> None:
    access = Access(s3=S3Access(access_key_id="key", secret_access_key="secret"))
    with pytest.raises(InvalidInput):
        locations.file(url, access)


def test_a_web_address_is_no_folder_and_no_target() -> None:
    with pytest.raises(InvalidInput, match="can only be read"):
        locations.folder("https://host/x", Access())
    with pytest.raises(InvalidInput, match="can only be read"):
        locations.file("https://host/x", Access())


def test_secrets_are_not_printed() -> None:
    assert "s3cret" not in repr(addresses.parse("ftp://me:s3cret@host/x"))
    assert "s3cret" not in repr(Access(s3=S3Access(secret_access_key="s3cret", session_token="s3cret")))
