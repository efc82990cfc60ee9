"""Landing copies a source once into our own storage. From then on nobody needs the source again.

The copy is unpacked, hashed as it arrived and as it is kept, and published whole. Its name follows from the name that
the caller gives and from the version of the source. So landing again after a crash makes the same object again, and a
straggler that still copies an older version cannot overwrite the newer one.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Self

from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.compression import HEAD, Compression, decided, limited, unpacked
from bulk_pipelines.storage.contract import Entry, Storage
from bulk_pipelines.storage.errors import OverLimit

INLINE = 4 << 20
"""Up to this many bytes, hashing is quicker than starting a thread for it."""
AHEAD = 4


@dataclass(frozen=True, slots=True)
class Limits:
    largest: int = 64 << 30
    """How many bytes a source may have, and how many it may unpack to."""
    ratio: float = 200.0
    """How many times its size a source may unpack to."""


def limits_of(settings: Settings) -> Limits:
    return Limits(settings.landing_max_bytes, settings.landing_max_ratio)


@dataclass(frozen=True, slots=True)
class Landed:
    url: str
    bytes: int
    sha256: str
    """The hash of the landed bytes, which are unpacked if the source was compressed."""
    version: str
    """The version of the landed object. Readers of its ranges ask for this version."""
    source: str
    """The address of the source, as it may be shown."""
    source_bytes: int
    source_sha256: str
    """The hash of the bytes as they arrived. If the same file is dropped again, it has the same hash."""
    compression: Compression


def land(
    source_url: str,
    into: Storage,
    name: str,
    access: Access,
    limits: Limits = Limits(),
    compression: Compression | None = None,
    progress: Callable[[int], None] = lambda _: None,
    within: str | None = None,
) -> Landed:
    """Copy a source into the storage under the name. `compression` is what the source was said to be; if it is None,
    the first bytes tell. `within` is the folder that a file of this machine must lie in.

    `progress` is called now and then with how many bytes have arrived. An error that it raises ends the landing, and
    nothing is left of it.
    """
    with locations.Sources(access, within) as sources:
        return land_from(sources, source_url, into, name, limits, compression, progress)


def land_from(
    sources: locations.Sources,
    source_url: str,
    into: Storage,
    name: str,
    limits: Limits = Limits(),
    compression: Compression | None = None,
    progress: Callable[[int], None] = lambda _: None,
    version: str | None = None,
) -> Landed:
    """Land one of many files as `land` does. `sources` keeps connections open from one file to the next. `version` is
    the version that is wanted of a file in a storage; if another one lies there, raise `SourceChanged`."""
    source, key = sources.source(source_url, "source")
    shown = source.url_of(key)
    # Web servers are not asked for a version, because they often tell none.
    opened = source.open(key, version=version) if isinstance(source, Storage) else source.open(key)
    with opened as reader:
        target = f"{name}-{landed_mark(shown, reader.entry)}"
        return land_stream(reader, reader.entry, shown, into, target, limits, compression, progress)


def land_stream(
    reader: Iterable[bytes],
    entry: Entry,
    shown: str,
    into: Storage,
    target: str,
    limits: Limits = Limits(),
    compression: Compression | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Landed:
    """Land bytes that arrive from wherever, under the name `target`. `entry` is what is known of them beforehand, and
    `shown` how they are called in messages. An error that the reading raises leaves nothing behind."""
    with Sha256() as arrived, Sha256() as kept:
        if entry.size > limits.largest:
            raise OverLimit(
                "source", f"{shown} has {entry.size} bytes, more than {limits.largest}: see BULK_LANDING_MAX_BYTES"
            )
        pieces = limited(counted(reader, arrived, progress), limits.largest, None, lambda: 0, shown)
        head, pieces = headed(pieces)
        kind = decided(head, compression, shown)
        plain = kind is Compression.NONE
        content = (
            pieces
            if plain
            else limited(unpacked(pieces, kind, shown), limits.largest, limits.ratio, lambda: arrived.size, shown)
        )
        with into.publish(target) as sink:
            for piece in content:
                sink.write(piece)
                if not plain:
                    kept.update(piece)
        return Landed(
            url=into.url_of(target),
            bytes=sink.size,
            sha256=(arrived if plain else kept).hexdigest(),
            version=into.stat(target).version,
            source=shown,
            source_bytes=arrived.size,
            source_sha256=arrived.hexdigest(),
            compression=kind,
        )


def landed_mark(shown: str, entry: Entry) -> str:
    """Return the part of a landed object's name that tells the versions of its source apart."""
    return hashlib.sha256(f"{shown}\n{entry.version}\n{entry.size}".encode()).hexdigest()[:12]


def counted(pieces: Iterable[bytes], digest: "Sha256", progress: Callable[[int], None]) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece
        progress(digest.size)


def headed(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first few bytes, and an iterator over all pieces, which has these bytes too."""
    first: list[bytes] = []
    for piece in pieces:
        first.append(piece)
        if sum(map(len, first)) >= HEAD:
            break
    return b"".join(first)[:HEAD], chain(first, pieces)


class Sha256:
    """A hash that is computed beside the reading and writing. Once there are bytes enough to be worth it, a thread of
    its own computes it."""

    def __init__(self) -> None:
        self.size = 0
        self.hash = hashlib.sha256()
        self.thread: ThreadPoolExecutor | None = None
        self.waiting: deque[Future[None]] = deque()

    def update(self, data: bytes) -> None:
        self.size += len(data)
        if self.size <= INLINE:
            self.hash.update(data)
            return
        self.thread = self.thread or ThreadPoolExecutor(1, thread_name_prefix="sha256")
        self.waiting.append(self.thread.submit(self.hash.update, data))
        if len(self.waiting) > AHEAD:
            self.waiting.popleft().result()

    def hexdigest(self) -> str:
        while self.waiting:
            self.waiting.popleft().result()
        return self.hash.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.thread:
            self.thread.shutdown(cancel_futures=True)
