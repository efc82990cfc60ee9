"""A folder of an S3 bucket, of Amazon or of any server that speaks the protocol, that is reached by obstore.

An object appears when its upload is complete, so publishing is atomic by nature. Files are read by ranges, a few of
them at once, and each is pinned to the version that the first one saw. obstore retries a failed request a few times
within seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError

from bulk_pipelines.errors import Failure
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Page, Reader, Sink, Storage, copy
from bulk_pipelines.storage.errors import Missing, SourceChanged
from bulk_pipelines.storage.s3 import walk
from bulk_pipelines.storage.s3.errors import NotSatisfiable, error_of
from bulk_pipelines.storage.s3.listing import Listing, version_of
from bulk_pipelines.storage.s3.ranges import PlainRanges
from bulk_pipelines.storage.s3.store import store_of

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from typing_extensions import Buffer

    from bulk_pipelines.storage.access import S3Access

PIECE = 8 << 20
AHEAD = 3
"""How many pieces are fetched at once while a file is read in order."""
PART = 16 << 20
"""Bytes of one part of a multipart upload. An upload has 10,000 parts at most, so an object has 160 GB at most."""
UPLOADS = 4
LARGEST_COPY = 1 << 30
"""The most bytes that S3 copies within itself in one request and in good time."""
SIGNED_FOR = timedelta(hours=1)
FAILURES = (BaseError, OSError, ValueError)


class S3Storage(Storage):
    def __init__(self, bucket: str, root: str, access: S3Access, ca_file: str = "") -> None:
        self.bucket = bucket
        self.root = paths.check(root) if root else ""
        self.store, self.signed = store_of(bucket, access, ca_file)
        self.plain = PlainRanges(self.store, bucket, access, self.signed, ca_file)
        self.listing = Listing(self.plain, access, self.url)

    def url_of(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.name(key)}"

    def name(self, key: str) -> str:
        """Return the object's whole name in the bucket."""
        return paths.check(f"{self.root}/{paths.check(key)}" if self.root else key)

    def close(self) -> None:
        self.plain.close()

    def stat(self, key: str) -> Entry:
        with self.translated(self.url_of(key)):
            return entry_of(key, obstore.head(self.store, self.name(key)))

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        # The first range also tells size and version, so one request is enough for a small object.
        try:
            entry, first = self.fetch(key, start, start + PIECE if stop is None else min(stop, start + PIECE), version)
        except NotSatisfiable:
            entry, first = self.stat(key), b""
            self.same(entry, version)
        end = entry.size if stop is None else min(stop, entry.size)
        pieces = self.pieces(entry, first, start + len(first), end)
        try:
            yield Reader(entry, pieces)
        finally:
            pieces.close()

    def signed_address(self, key: str) -> str | None:
        return obstore.sign(self.store, "GET", self.name(key), SIGNED_FOR) if self.signed else None

    def pieces(self, entry: Entry, first: bytes, start: int, end: int) -> Generator[bytes, None, None]:
        if first:
            yield first
        if start < end:
            try:
                yield from self.plainly(entry, start, end) if self.plain.needed else self.ahead(entry, start, end)
            except Missing:
                raise SourceChanged(f"{self.url_of(entry.key)} was removed while it was read") from None

    def ahead(self, entry: Entry, start: int, end: int) -> Iterator[bytes]:
        """Yield the pieces in order, while the next ones are on their way."""
        starts = iter(range(start, end, PIECE))
        coming: deque[Future[tuple[Entry, bytes]]] = deque()
        with ThreadPoolExecutor(AHEAD, thread_name_prefix="s3") as threads:
            try:
                while True:
                    for each in starts:
                        coming.append(
                            threads.submit(self.fetch, entry.key, each, min(each + PIECE, end), entry.version)
                        )
                        if len(coming) == AHEAD:
                            break
                    if not coming:
                        return
                    yield coming.popleft().result()[1]
            finally:
                for waiting in coming:
                    waiting.cancel()

    def plainly(self, entry: Entry, start: int, end: int) -> Iterator[bytes]:
        with self.plain.open(entry.key, self.name(entry.key), start, end) as (found, pieces):
            self.same(found, entry.version)
            for piece in pieces:
                start += len(piece)
                yield piece
        if start != end:
            raise SourceChanged(f"{self.url_of(entry.key)} became shorter while it was read")

    def fetch(self, key: str, start: int, stop: int, version: str | None) -> tuple[Entry, bytes]:
        """Fetch a range in one request. Raise `SourceChanged` if it is not whole or not of that version."""
        if start >= stop:
            entry, data = self.stat(key), b""
        elif self.plain.needed:
            with self.plain.open(key, self.name(key), start, stop) as (entry, pieces):
                data = b"".join(pieces)
        else:
            options: GetOptions = {"range": (start, stop)}
            if version:
                options["if_match"] = f'"{version}"'
            try:
                found = obstore.get(self.store, self.name(key), options=options)
                entry, data = entry_of(key, found.meta), bytes(found.bytes())
            except (BaseError, OSError) as error:
                if "NotPartial" in str(error):
                    self.plain.needed = True
                    return self.fetch(key, start, stop, version)
                raise error_of(error, self.url_of(key), self.signed) from None
        self.same(entry, version)
        if start < stop and len(data) != min(stop, entry.size) - start:
            raise SourceChanged(f"{self.url_of(key)} became shorter while it was read")
        return entry, data

    def same(self, entry: Entry, version: str | None) -> None:
        if version is not None and entry.version != version:
            raise SourceChanged(f"{self.url_of(entry.key)} is no longer the version {version}: it was written to")

    def read(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> bytes:
        if stop is None or stop - start > PIECE:
            return super().read(key, start, stop, version)
        try:
            return self.fetch(key, start, stop, version)[1]
        except NotSatisfiable:
            return b""

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.root}".rstrip("/")

    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        return walk.pages(self.listing, self.root, paths.Pattern(pattern), aside)

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url, name = self.url_of(key), self.name(key)
        with self.translated(url):
            writer = obstore.open_writer(self.store, name, buffer_size=PART, max_concurrency=UPLOADS)

        def write(data: Buffer) -> None:
            with self.translated(url):
                writer.write(data)

        published = False
        try:
            yield Sink(write)
            with self.translated(url):
                writer.close()
                published = True
        finally:
            if not published:
                with suppress(*FAILURES):  # given an exception, the writer removes the parts that were uploaded
                    writer.__exit__(Abandoned, Abandoned(), None)

    def put(self, key: str, data: bytes) -> Entry:
        with self.translated(self.url_of(key)):
            answer = obstore.put(self.store, self.name(key), data, use_multipart=len(data) > PART)
        return Entry(key, len(data), None, (answer["e_tag"] or "").strip('"'))

    def put_again(self, key: str, data: bytes) -> Entry:
        return self.plain.put(key, self.name(key), data)

    def patience(self, key: str) -> float | None:
        try:
            with self.plain.open(key, self.name(key), 0, 1):
                return None
        except Failure as error:
            return error.retry_after

    def delete(self, *keys: str) -> None:
        if keys:
            with self.translated(self.url_of(keys[0])):
                obstore.delete(self.store, [self.name(key) for key in keys])

    def move(self, key: str, to: str) -> None:
        """Move a file by copying it and then removing it. Between the two, it is there under both names."""
        if key == to:
            self.stat(key)
            return
        self.copy_within(self.stat(key), to)
        self.delete(key)

    def copy_within(self, entry: Entry, to: str) -> None:
        if entry.size > LARGEST_COPY:
            copy(self, entry.key, self, to)
        else:
            with self.translated(self.url_of(entry.key)):
                obstore.copy(self.store, self.name(entry.key), self.name(to))

    def move_new(self, key: str, to: str) -> bool:
        if self.exists(to):
            return False
        self.move(key, to)
        return True

    def take_away(self, key: str, version: str, to: str | None = None) -> None:
        """Move or remove a file if it is of this version. A copy counts if this version lay there before and after it.
        The removal names the version; servers that do not know such a condition remove whatever has come since the last
        look, some milliseconds before."""
        entry = self.stat(key)
        self.same(entry, version)
        if to is not None:
            self.copy_within(entry, to)
            self.still(key, version, to)
        try:
            self.plain.delete(self.name(key), version)
        except SourceChanged:
            self.still(key, version, to)
            self.delete(key)  # the version still lies there: this server has no ETags to compare the condition with

    def still(self, key: str, version: str, copied: str | None) -> None:
        """Raise `SourceChanged` if another version lies there by now. If it was that one which was copied, remove the
        copy."""
        now = self.stat(key).version
        if now != version:
            if copied is not None and self.version_of(copied) == now:
                self.delete(copied)
            raise SourceChanged(f"{self.url_of(key)} is no longer the version {version}: it was written to")

    def sweep(self, before: datetime, of: str = "") -> int:  # noqa: ARG002
        """Remove nothing: uploads that were never completed are not objects, and a lifecycle rule of the bucket removes
        them."""
        return 0

    @contextmanager
    def translated(self, url: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise error_of(error, url, self.signed) from None


class Abandoned(Exception):
    pass


def entry_of(key: str, meta: ObjectMeta) -> Entry:
    modified = meta["last_modified"]
    return Entry(key, meta["size"], modified, version_of(meta["e_tag"] or "", modified, meta["size"]))
