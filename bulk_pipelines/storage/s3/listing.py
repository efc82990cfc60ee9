"""Listing a bucket by requests of the protocol itself.

obstore takes every key for a path, and breaks the whole listing off at the first that is none (`a//b`, `a/../b`, one
with a control character). The other side decides on its keys, so here they come as they are.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree

import httpx

from bulk_pipelines.errors import Permanent, Transient
from bulk_pipelines.storage.access import S3Access
from bulk_pipelines.storage.s3.ranges import PlainRanges, unreachable
from bulk_pipelines.storage.s3.store import credentials_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

KEYS = 1_000
"""The most keys that S3 tells in one answer."""
RETRY_SECONDS = 20.0
FIRST_DELAY = 0.1
NOT_XML = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|&#(?:x0*(?:[0-8bBcCeEfF]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2\d|3[01]));"
)
"""Control characters in keys, as servers write them that do not encode keys although they are asked to."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing tells of an object."""

    name: str
    size: int
    modified: datetime | None
    etag: str

    @property
    def is_marker(self) -> bool:
        """Whether the object only stands for a folder. Consoles (`folder/`) and Hadoop (`folder_$folder$`) make such
        objects."""
        return self.size == 0 and self.name.endswith(("/", "_$folder$"))


class Listing:
    def __init__(self, plain: PlainRanges, access: S3Access, url: str) -> None:
        self.plain = plain
        self.access = access
        self.url = url

    def pages(self, prefix: str, after: str | None) -> Iterator[list[Listed]]:
        """Yield the objects whose names begin with `prefix` and come behind `after`, sorted as the server has them."""
        token: str | None = None
        while True:
            asked = {"list-type": "2", "max-keys": str(KEYS), "encoding-type": "url", "prefix": prefix}
            if token:
                asked["continuation-token"] = token
            elif after:
                asked["start-after"] = after
            found, truncated, token = read(self.answer(asked), self.url)
            if found:
                after = found[-1].name
                yield found
            if not truncated or not (found or token):
                return

    def answer(self, asked: dict[str, str]) -> bytes:
        """Send a request, with as many more tries as obstore makes."""
        began = time.monotonic()
        for attempt in range(self.access.retries + 1):
            try:
                return self.once(asked)
            except Transient:
                if attempt == self.access.retries or time.monotonic() - began > RETRY_SECONDS:
                    raise
            time.sleep(FIRST_DELAY * 2**attempt)
        raise AssertionError

    def once(self, asked: dict[str, str]) -> bytes:
        query = "&".join(
            f"{each}={quote(value, '', errors='surrogateescape')}" for each, value in sorted(asked.items())
        )
        url = f"{self.plain.bucket_address}?{query}"
        try:
            response = self.plain.connected().get(url, headers=self.headers(url))
        except httpx.HTTPError:
            raise unreachable(self.url) from None
        if response.status_code != 200:
            raise self.plain.refusal(response, self.url)
        return response.content

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers that sign the request."""
        credentials = credentials_of(self.access)
        if credentials is None:
            return {}
        from botocore.auth import S3SigV4Auth  # noqa: PLC0415 - slow to import
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        request = AWSRequest("GET", url)
        try:
            S3SigV4Auth(credentials.get_frozen_credentials(), "s3", self.access.region).add_auth(request)
        except BotoCoreError:
            raise Transient(f"the credentials for {self.url} cannot be renewed") from None
        return dict(request.headers.items())


def read(answer: bytes, url: str) -> tuple[list[Listed], bool, str | None]:
    """Return the objects of a page, whether there are more, and the token by which to ask for these."""
    try:
        root = parsed(answer)
        fields = {name_of(each): each.text or "" for each in root}
        encoded = fields.get("EncodingType") == "url"
        found = [listed(each, encoded) for each in root if name_of(each) == "Contents"]
    except (ElementTree.ParseError, KeyError, ValueError):
        raise Permanent(f"the S3 server of {url} answers in a way that cannot be read") from None
    return found, fields.get("IsTruncated") == "true", fields.get("NextContinuationToken") or None


def parsed(answer: bytes) -> "Element":
    try:
        return ElementTree.fromstring(answer)  # noqa: S314 - expat bounds what entities may become
    except ElementTree.ParseError:
        # A name that is changed in this way still has a control character in it, by which it is left out.
        return ElementTree.fromstring(NOT_XML.sub(b"\x7f", answer))  # noqa: S314


def listed(about: "Element", encoded: bool) -> Listed:
    fields = {name_of(each): each.text or "" for each in about}
    name = unquote_plus(fields["Key"], errors="surrogateescape") if encoded else fields["Key"]
    return Listed(name, int(fields["Size"]), moment(fields.get("LastModified", "")), fields.get("ETag", ""))


def name_of(element: "Element") -> str:
    return element.tag.rpartition("}")[2]


def moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def version_of(etag: str, modified: datetime | None, size: int) -> str:
    time = f"{modified.timestamp():.0f}" if modified else ""
    return etag.removeprefix("W/").strip('"') or f"{time}-{size:x}"
