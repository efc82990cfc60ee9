"""Requests that obstore has signed and that are sent plainly, where obstore cannot do what is needed.

Some servers of the S3 protocol (rclone's, lakeFS's) answer a request for a range with 200 and a Content-Range, where S3
says 206. obstore does not take that; nor does it tell the headers of a refusal, or remove an object on a condition.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import httpx
import obstore

from bulk_pipelines.storage.access import S3Access
from bulk_pipelines.storage.contract import Entry
from bulk_pipelines.storage.errors import Permanent, StorageError, Transient
from bulk_pipelines.storage.http_fields import moment, retry_after
from bulk_pipelines.storage.s3_errors import answered
from bulk_pipelines.storage.s3_store import address_of
from bulk_pipelines.storage.tls import context

if TYPE_CHECKING:
    from obstore.store import S3Store

PIECE = 1 << 20
EXPIRES = timedelta(minutes=15)


class PlainRanges:
    def __init__(self, store: "S3Store", bucket: str, access: S3Access, signed: bool, ca_file: str) -> None:
        self.store = store
        self.bucket = bucket
        self.access = access
        self.signed = signed
        self.ca_file = ca_file
        self.needed = False
        """Whether the server was seen to need this."""
        self.client: httpx.Client | None = None
        self.lock = threading.Lock()

    def close(self) -> None:
        with self.lock:
            if self.client:
                self.client.close()
            self.client = None

    def connected(self) -> httpx.Client:
        with self.lock:
            if not self.client:
                timeout = httpx.Timeout(60.0, connect=10.0)
                self.client = httpx.Client(timeout=timeout, verify=context(self.ca_file), follow_redirects=False)
            return self.client

    def address(self, name: str, method: Literal["GET", "PUT", "DELETE"] = "GET") -> str:
        if self.signed:
            return obstore.sign(self.store, method, name, EXPIRES)
        return f"{self.bucket_address}/{quote(name)}"

    @property
    def bucket_address(self) -> str:
        return address_of(self.bucket, self.access)

    @contextmanager
    def open(self, key: str, name: str, start: int, stop: int) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        """The object as it is now, and the bytes of the range."""
        shown = f"s3://{self.bucket}/{name}"
        try:
            headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
            with self.connected().stream("GET", self.address(name), headers=headers) as response:
                if response.status_code not in {200, 206}:
                    response.read()
                    raise self.refusal(response, shown)
                found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
                if not found or int(found[1]) != start:
                    raise Permanent(f"the S3 server of {shown} cannot send a range of an object")
                yield entry_of(key, int(found[2]), response.headers), response.iter_raw(PIECE)
        except httpx.HTTPError:  # its text would show the signed address
            raise unreachable(shown) from None

    def put(self, key: str, name: str, data: bytes) -> Entry:
        """A small upload. obstore does not tell the headers of a refusal, and so no Retry-After; this does."""
        shown = f"s3://{self.bucket}/{name}"
        try:
            response = self.connected().put(self.address(name, "PUT"), content=data)
        except httpx.HTTPError:
            raise unreachable(shown) from None
        if response.status_code != 200:
            raise self.refusal(response, shown)
        return Entry(key, len(data), None, version_of(response.headers))

    def delete(self, name: str, version: str) -> None:
        """If it is that version, on servers that know conditions for this (Amazon's does)."""
        shown = f"s3://{self.bucket}/{name}"
        try:
            response = self.connected().delete(self.address(name, "DELETE"), headers={"If-Match": f'"{version}"'})
            if response.status_code == 501:  # it knows none, and says so
                response = self.connected().delete(self.address(name, "DELETE"))
        except httpx.HTTPError:
            raise unreachable(shown) from None
        if response.status_code not in {200, 204}:
            raise self.refusal(response, shown)

    def refusal(self, response: httpx.Response, shown: str) -> StorageError:
        code = re.search(r"<Code>(\w+)</Code>", response.content[:10_000].decode(errors="replace"))
        wait = retry_after(response.headers)
        return answered(response.status_code, code[1] if code else "", shown, self.signed, wait)


def unreachable(shown: str) -> Transient:
    return Transient(f"the S3 server of {shown} cannot be reached, or the connection to it broke")


def entry_of(key: str, size: int, headers: httpx.Headers) -> Entry:
    return Entry(key, size, moment(headers.get("Last-Modified", "")), version_of(headers))


def version_of(headers: httpx.Headers) -> str:
    return str(headers.get("ETag", "")).removeprefix("W/").strip('"')
