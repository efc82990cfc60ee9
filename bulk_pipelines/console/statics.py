"""The files that pages load. Their names hold a hash of their content, so a browser may keep them for ever."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
PLACES = {
    "console.css": "console.css",
    "console.js": "console.js",
    "uploads.js": "uploads.js",
    "htmx.js": "htmx/htmx.min.js",
    "icon.svg": "icon.svg",
}


@dataclass(frozen=True)
class Static:
    content: bytes
    packed: bytes
    """The content, compressed by gzip."""
    media_type: str
    name: str
    """The name in an address, with the hash in it."""


@cache
def static(name: str) -> Static:
    content = files("bulk_pipelines.console").joinpath("static").joinpath(PLACES[name]).read_bytes()
    stem, _, suffix = name.rpartition(".")
    return Static(
        content,
        gzip.compress(content, mtime=0),
        MEDIA_TYPES[suffix],
        f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{suffix}",
    )


@cache
def by_address() -> dict[str, Static]:
    return {found.name: found for found in map(static, PLACES)}


def address(name: str) -> str:
    return f"/console/static/{static(name).name}"


def serve(request: Request) -> Response:
    """Answer with a file. A name of an earlier release leads to nothing: only a page of that release names it."""
    found = by_address().get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, 200, headers | {"Content-Encoding": "gzip"}, found.media_type)
    return Response(found.content, 200, headers, found.media_type)
