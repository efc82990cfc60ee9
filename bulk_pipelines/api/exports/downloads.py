"""The file of an export, whole or a part of it (RFC 9110: conditions and ranges)."""

import base64
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime

from fastapi import Request, Response

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.exports import requests
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.api.streams import Gone, Stream, Streams
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.report import finished
from bulk_pipelines.exports.report.finished import Finished

RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)
NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


def download(request: Request, door: Door, job_key: str, caller: Caller) -> Response:
    """Answer with the file of an export, with a part of it, or with where it can be fetched."""
    with transaction(door.pool) as connection:
        job = submission.export_job(connection, job_key, caller.actor.sees)
    with finished.opened(job, door.settings) as file:
        headers = headers_of(file, job.finished_at or datetime.now(UTC))
        if matches(request.headers.get("if-none-match", ""), headers["ETag"]):
            return Response(status_code=304, headers={name: headers[name] for name in ("ETag", "Cache-Control")})
        if request.method == "HEAD":
            return Response(
                status_code=200,
                headers=headers | {"Content-Length": str(file.entry.size)},
                media_type=requests.media_type(file.request),
            )
        address = file.signed_address() if door.settings.api_redirects else None
        if address is not None:
            return Response(status_code=307, headers={"Location": address, "Cache-Control": "no-store"})
        start, stop = part_of(request, file, headers["ETag"])
        status = 200
        if (start, stop) != (0, file.entry.size):
            status = 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.entry.size}"

    def pieces(_gone: Gone) -> Iterator[bytes]:
        with finished.opened(job, door.settings) as again:
            yield from last_held_back(again.pieces(start, stop, file.entry.version))

    streams: Streams = request.app.state.streams
    headers["Content-Length"] = str(stop - start)
    return Stream(streams, caller.actor.name, pieces, requests.media_type(file.request), headers, status)


def last_held_back(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the last piece only when `pieces` has ended without an error. A client takes an answer for whole when it
    has as many bytes as were promised: an error that comes after the last of them would reach nobody."""
    held = b""
    for piece in pieces:
        if held:
            yield held
        held = piece
    if held:
        yield held


def headers_of(file: Finished, finished_at: datetime) -> dict[str, str]:
    """Return the headers of the file, whole or in parts. Its tag changes when the file does."""
    tag = hashlib.sha256(f"{file.sha256}\n{file.entry.size}\n{file.entry.version}".encode()).hexdigest()[:32]
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        "ETag": f'"{tag}"',
        "Accept-Ranges": "bytes",
        "Last-Modified": format_datetime(finished_at.astimezone(UTC), usegmt=True),
        "Repr-Digest": f"sha-256=:{digest}:",
        "Content-Disposition": f'attachment; filename="{NOT_PLAIN.sub("_", file.name)}"',
        "Cache-Control": "private, no-cache",
    }


def matches(condition: str, tag: str) -> bool:
    """Whether the tag is in a list of tags, by the weak comparison that `If-None-Match` asks for."""
    return any(each in ("*", tag, f"W/{tag}") for each in TAG.findall(condition))


def part_of(request: Request, file: Finished, tag: str) -> tuple[int, int]:
    """Return where the bytes that are asked for begin and end. A request for several ranges, or for a range of an
    earlier version of the file (`If-Range`), is answered with the whole file."""
    size = file.entry.size
    found = RANGE.fullmatch(request.headers.get("range", "").strip())
    condition = request.headers.get("if-range", "").strip()
    if found is None or found.groups() == ("", "") or condition not in ("", tag):
        return 0, size
    first, last = found.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), size if not last else min(int(last) + 1, size)
        if last and int(last) < int(first):
            return 0, size
    if start >= stop:
        raise Refusal(
            "range-not-satisfiable",
            f"the file has {size:,} bytes",
            headers={"Content-Range": f"bytes */{size}", "ETag": tag},
        )
    return start, stop
