"""The bytes of a row's picture: from a folder, an archive, a web address or a cell, and never more than allowed."""

import base64
import binascii
import lzma
import re
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import httpx

from bulk_pipelines import settings
from bulk_pipelines.engine.rate_limit import Limit, Limiter, MustWait, Use
from bulk_pipelines.errors import Failure, Permanent, PutOff, Throttled, Transient
from bulk_pipelines.processing.image.options import Options
from bulk_pipelines.processing.intake import archives
from bulk_pipelines.processing.providers.client import UNSAID_SECONDS
from bulk_pipelines.processing.providers.provider import WIKIMEDIA
from bulk_pipelines.storage import locations, paths
from bulk_pipelines.storage.access import Access, access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import OverLimit

CELL = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)
WEB = re.compile(r"https?://", re.IGNORECASE)
HEX = "\\x"
BROKEN = (
    zipfile.BadZipFile,
    NotImplementedError,
    EOFError,
    ValueError,
    IndexError,
    OSError,
    zlib.error,
    lzma.LZMAError,
)
"""What unpacking raises of an archive that is damaged, hostile or packed in an unusual way."""
OPENING = threading.Lock()
PATIENCE = 10.0
"""How many seconds a row waits for its web server's turn; after that it is put off, and others are worked."""
LimiterOf = Callable[[Limit], Limiter]


@dataclass(frozen=True)
class Place:
    """Where the rows of a job have their pictures."""

    folder: str = ""
    archive: str = ""
    """The landed copy of an archive."""
    listed: bool = False
    """Whether the rows are whatever files were found there."""


def fetched(text: str, member: object, place: Place, options: Options, limiter: LimiterOf) -> bytes:
    """Return a picture's bytes. `member` is its number in the archive; `limiter` knows the limits of web servers."""
    if place.archive:
        return of_archive(place.archive, member, options.most_bytes)
    if CELL.match(text) or text.startswith(HEX):
        return of_cell(text)
    if WEB.match(text):
        return of_web(text, options, limiter)
    if not place.folder:
        raise Permanent("the row names a file, and the recipe names no folder in which files may be read")
    key = paths.check(text, "image")
    with opened(place.folder).open(key) as reader:
        return within(reader, options.most_bytes, options.seconds)


def of_cell(text: str) -> bytes:
    try:
        if text.startswith(HEX):
            return bytes.fromhex(text[2:])
        return base64.b64decode(text.partition(",")[2], validate=True)
    except (ValueError, binascii.Error):
        raise Permanent("the cell holds no picture: neither base64 nor hexadecimal digits") from None


def of_web(text: str, options: Options, limiter: LimiterOf) -> bytes:
    """Fetch a picture when it is its web server's turn. What the server says of its limits holds for all workers."""
    server = host(text)
    if WIKIMEDIA.fullmatch(server):
        raise Permanent("pictures of Wikimedia are asked for by their titles, within its limits: see `title`")
    try:
        with limiter(options.limit_of(server)).use(PATIENCE) as use:
            found = answered(text, options, use)
    except MustWait as error:
        raise PutOff(str(error), error.seconds) from None
    if isinstance(found, Failure):
        raise found
    return found


def answered(text: str, options: Options, use: Use) -> bytes | Failure:
    """Return the picture, or why there is none. Only what is the web server's own trouble counts against it."""
    try:
        source, key = locations.source(text, access(options.seconds), "image")
        with source.open(key) as reader:
            return within(reader, options.most_bytes, 2 * options.seconds)
    except Throttled as error:
        use.retry_after(UNSAID_SECONDS if error.retry_after is None else error.retry_after)
        return error
    except Failure as error:
        if isinstance(error, Transient):
            use.fail()
        return error


def host(text: str) -> str:
    try:
        return httpx.URL(text).host.lower()
    except httpx.InvalidURL:
        raise Permanent("the row holds no address of a web server") from None


def access(seconds: float) -> Access:
    found = access_of(settings.current())
    return replace(found, http=replace(found.http, seconds=2 * seconds))


def within(pieces: Iterable[bytes], most: int, seconds: float) -> bytes:
    found, deadline = bytearray(), time.monotonic() + seconds
    for piece in pieces:
        found += piece
        if len(found) > most:
            raise OverLimit("image", f"it has more than {most:,} bytes")
        if time.monotonic() > deadline:
            raise Transient("the picture does not arrive in time")
    return bytes(found)


@lru_cache(maxsize=8)
def opened(folder: str) -> Storage:
    return locations.folder(folder, access_of(settings.current()), "folder")


def of_archive(address: str, member: object, most: int) -> bytes:
    try:
        with OPENING:
            file = archives.opened(address, settings.current())
        assert isinstance(member, int), "the intake wrote the number of the member"
        info = file.infolist()[member]
        if info.flag_bits & 1:
            raise Permanent("the file in the archive is encrypted")
        with file.open(info) as reader:
            found = reader.read(most + 1)
    except BROKEN as error:
        raise Permanent(f"the file in the archive cannot be unpacked: {error}") from None
    if len(found) > most:
        raise OverLimit("image", f"it unpacks to more than {most:,} bytes")
    return found
