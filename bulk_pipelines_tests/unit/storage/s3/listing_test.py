"""Pages of a bucket's listing, as servers write them."""

import os
from datetime import timedelta

import obstore
import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.access import S3Access
from bulk_pipelines.storage.paths import fault
from bulk_pipelines.storage.s3.listing import Listed, read
from bulk_pipelines.storage.s3.store import address_of, store_of

HEAD = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
TAIL = "</ListBucketResult>"
TIME = "<LastModified>2026-01-01T12:00:00.000Z</LastModified>"


def page(*keys: str, more: str = "") -> bytes:
    contents = "".join(f'<Contents><Key>{key}</Key>{TIME}<ETag>"ab"</ETag><Size>7</Size></Contents>' for key in keys)
    return f"{HEAD}{more}{contents}{TAIL}".encode()


def names(answer: bytes) -> list[str]:
    return [each.name for each in read(answer, "s3://bucket")[0]]


def test_keys_are_decoded_where_they_were_encoded() -> None:
    assert names(page("a+b%2Bc%2F%2Fd%0A", more="<EncodingType>url</EncodingType>")) == ["a b+c//d\n"]
    assert names(page("a+b%2B&amp;")) == ["a+b%2B&"]
    (odd,) = names(page("%FF", more="<EncodingType>url</EncodingType>"))
    assert fault(odd) == "is not valid Unicode"


@pytest.mark.parametrize("key", ["a\x01b", "a\x1fb", "a&#1;b", "a&#x1F;b", "a&#x00;b", "a&#0;b"])
def test_control_characters_that_are_no_xml_hide_no_other_key(key: str) -> None:
    first, odd, last = names(page("first", key, "last"))
    assert (first, last) == ("first", "last")
    assert fault(odd) == "has a control character in it"


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", page("a").replace(b"<Size>7</Size>", b""), page("a").replace(b"7", b"seven")]
)
def test_what_is_no_listing_is_an_error(answer: bytes) -> None:
    with pytest.raises(Permanent, match="answers in a way that cannot be read"):
        read(answer, "s3://bucket")


def test_more_is_told_with_its_token() -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1</NextContinuationToken>"
    found, truncated, token = read(page("a", more=more), "s3://bucket")
    assert (len(found), truncated, token) == (1, True, "t/1")
    assert read(page(), "s3://bucket") == ([], False, None)


@pytest.mark.parametrize(
    ("name", "size", "is_marker"),
    [("a/", 0, True), ("a/b_$folder$", 0, True), ("a", 0, False), ("a/", 1, False), ("a_$folder$", 9, False)],
)
def test_markers_of_folders(name: str, size: int, is_marker: bool) -> None:
    assert Listed(name, size, None, "").is_marker is is_marker


@pytest.mark.parametrize(
    ("endpoint", "environment", "address"),
    [
        ("", {}, "https://s3.eu-west-1.amazonaws.com/bucket"),
        ("http://127.0.0.1:9000", {}, "http://127.0.0.1:9000/bucket"),
        ("https://s3.example.org/gate", {}, "https://s3.example.org/gate/bucket"),
        ("", {"AWS_ENDPOINT_URL": "https://s3.example.org"}, "https://s3.example.org/bucket"),
    ],
)
def test_a_bucket_is_listed_where_obstore_reads_and_writes_it(
    endpoint: str, environment: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    address_of.cache_clear()
    store_of.cache_clear()
    access = S3Access(endpoint, "eu-west-1", "KEY", "SECRET")
    assert address_of("bucket", access) == address
    store, _ = store_of("bucket", access)
    assert obstore.sign(store, "GET", "a/b.csv", timedelta(minutes=1)).startswith(f"{address}/a/b.csv?")
    address_of.cache_clear()
    store_of.cache_clear()
