"""HEAD is answered by the head of what GET answers, and no body is made for it."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from bulk_pipelines.api.serving.heads import Headed
from bulk_pipelines.api.streams import Stream, Streams

STREAMS = Streams()


class Counted:
    """Pieces, of which it is known how many were made, and whether somebody has closed them."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = False

    def pieces(self) -> Iterator[bytes]:
        try:
            for _ in range(1_000):
                self.made += 1
                yield b"x" * 1_000
        finally:
            self.closed = True


def asked(counted: Counted, method: str, path: str) -> tuple[int, bytes, httpx.Headers]:
    def plain(request: Request) -> Response:
        return PlainTextResponse(request.method, headers={"ETag": '"1"'})

    def streaming(_: Request) -> Response:
        return StreamingResponse(counted.pieces())

    def stream(_: Request) -> Response:
        return Stream(STREAMS, "ada", lambda _: counted.pieces(), "text/csv", {})

    def failing(_: Request) -> Response:
        raise ValueError

    def own(request: Request) -> Response:
        return Response(status_code=204, headers={"X-Method": request.method})

    def failed(_: Request, __: Exception) -> Response:
        return PlainTextResponse("failed", 500)

    places = {"plain": plain, "streaming": streaming, "stream": stream, "failing": failing}
    routes = [Route(f"/{name}", each, methods=["GET"]) for name, each in places.items()]
    for route in routes:
        assert route.methods is not None
        route.methods.discard("HEAD")  # as the framework's own routes have it
    app = Starlette(
        routes=[
            *routes,
            Route("/own", own, methods=["HEAD"]),
            Route("/posted", own, methods=["POST"]),
            Mount("/below", routes=[Route("/plain", plain)]),
        ],
        middleware=[Middleware(Headed)],
        exception_handlers={500: failed},
    )

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path)

    answer = asyncio.run(ask())
    return answer.status_code, answer.content, answer.headers


@pytest.mark.parametrize("path", ["/plain", "/below/plain"])
def test_the_head_is_that_of_the_body(path: str) -> None:
    status, body, headers = asked(Counted(), "HEAD", path)
    assert (status, body) == (200, b"")
    got = asked(Counted(), "GET", path)[2]
    assert {name: headers[name] for name in ("content-length", "etag")} == {"content-length": "3", "etag": '"1"'}
    assert headers == got


@pytest.mark.parametrize(("path", "most"), [("/streaming", 0), ("/stream", 1)])
def test_a_stream_is_not_made(path: str, most: int) -> None:
    """A stream that tells errors before its first byte must make that byte; then it is closed, and its place is
    free."""
    counted = Counted()
    status, body, _ = asked(counted, "HEAD", path)
    assert (status, body) == (200, b"")
    assert counted.made <= most
    assert counted.closed == (counted.made > 0)
    assert STREAMS.owners == []
    assert len(asked(Counted(), "GET", path)[1]) == 1_000_000


def test_what_has_no_get_and_what_has_a_head_of_its_own_stay_as_they_are() -> None:
    assert asked(Counted(), "HEAD", "/posted")[0] == 405
    assert asked(Counted(), "HEAD", "/none")[0] == 404
    status, _, headers = asked(Counted(), "HEAD", "/own")
    assert (status, headers["x-method"]) == (204, "HEAD")


def test_an_error_is_answered_by_its_head() -> None:
    status, body, headers = asked(Counted(), "HEAD", "/failing")
    assert (status, headers["content-length"], body) == (500, "6", b"")
