"""The files that pages load: their names hold a hash of their content, so a browser may keep them for ever."""

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
    "htmx.js": "htmx/htmx.min.js",
    "icon.svg": "icon.svg",
}


@dataclass(frozen=True)
class Static:
    content: bytes
    media_type: str
    name: str
    """The name in an address: with the hash."""


@cache
def static(name: str) -> Static:
    content = files("bulk_pipelines.console").joinpath("static").joinpath(PLACES[name]).read_bytes()
    stem, _, suffix = name.rpartition(".")
    return Static(content, MEDIA_TYPES[suffix], f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{suffix}")


@cache
def by_address() -> dict[str, Static]:
    return {found.name: found for found in map(static, PLACES)}


def address(name: str) -> str:
    return f"/console/static/{static(name).name}"


def serve(request: Request) -> Response:
    """Answer with a file. A name of an earlier release leads to nothing: its page is loaded again anyway."""
    found = by_address().get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    return Response(found.content, 200, {"Cache-Control": "public, max-age=31536000, immutable"}, found.media_type)
