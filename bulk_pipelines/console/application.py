"""The console is an application of its own, mounted into that of the API. It has its pages, its answers to errors, and
headers around all of them."""

import secrets

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bulk_pipelines.api import problems
from bulk_pipelines.api.door import Door
from bulk_pipelines.api.owners import sessions
from bulk_pipelines.api.problems import PROBLEMS
from bulk_pipelines.console import frame, statics
from bulk_pipelines.console.news import Common
from bulk_pipelines.console.pages import ROUTERS
from bulk_pipelines.database import faults
from bulk_pipelines.errors import BulkError, Unauthenticated

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PLACE = "/console"


def install(app: FastAPI) -> None:
    """Put the console into the API's application, below /console; / leads there. So its pages share no names with the
    API, and a proxy can tell the two apart."""
    for place in ("/", PLACE, f"{PLACE}/"):
        app.router.routes.append(Route(place, lambda _: RedirectResponse(frame.HOME)))
    app.mount(PLACE, console(app))


def console(app: FastAPI) -> FastAPI:
    made = FastAPI(title="console", openapi_url=None, docs_url=None, redoc_url=None)
    made.state = app.state
    made.state.common = Common(app.state.door.pool)
    for error in (BulkError, HTTPException, RequestValidationError, psycopg.Error):
        made.add_exception_handler(error, answer_error)
    made.router.routes.append(Route("/static/{name}", statics.serve))
    for router in ROUTERS:
        made.include_router(router)
    made.add_middleware(Around)
    return made


class Around:
    """Adds to every answer of the console the headers that keep it from being misused, and the browser's cookies."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        state = scope.setdefault("state", {})
        state["made_cookies"] = {} if sessions.FORM_COOKIE in request.cookies else {sessions.FORM_COOKIE: fresh()}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
                if headers["cache-control"] == "no-store":  # what browsers may keep has no cookies in it
                    for line in cookies(request):
                        headers.append("Set-Cookie", line)
            await send(message)

        await self.app(scope, receive, send_guarded)


def fresh() -> str:
    return secrets.token_urlsafe(24)


def cookies(request: Request) -> list[str]:
    """Return the headers that set the browser's cookies: the one that forms are bound to, and a session's new
    secret."""
    made = dict(request.state.made_cookies)
    renewed = getattr(request.state, "session_cookie", None)
    if renewed:
        made[sessions.COOKIE] = renewed
    return [cookie(name, value, is_secure(request)) for name, value in made.items()]


def cookie(name: str, value: str, secure: bool) -> str:
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def is_secure(request: Request) -> bool:
    """Whether the browser speaks HTTPS, to this server or to a trusted proxy."""
    door: Door = request.app.state.door
    peer = request.client.host if request.client else ""
    said = Headers(scope=request.scope).get("x-forwarded-proto", "") if door.trusts(peer) else ""
    return request.url.scheme == "https" or said.lower() == "https"


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer an error with a page that says what is wrong and what to do. Whoever is not logged in is led to the
    login, and from there back."""
    if isinstance(error, Unauthenticated):
        return led_to_login(request)
    status, title, detail, remedy = told(request, error)
    text = (
        frame.templates()
        .get_template("error.html")
        .render(title=title, detail=detail, remedy=remedy, status=status, trace=request.state.trace.request_id)
    )
    return HTMLResponse(text, status)


def told(request: Request, error: Exception) -> tuple[int, str, str, str]:
    """Return the status of an error, and what the page says of it: the same words as the API's."""
    if isinstance(error, BulkError):
        problem = problems.problem_of(error)
        return of(problem, " ".join(str(error).split()))
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return of("invalid-input", f"{problems.field_of(first['loc'])}: {first['msg']}")
    if isinstance(error, psycopg.Error):
        passes = faults.passes(error)
        problems.log.error("request %s failed", request.state.trace.request_id, exc_info=error)
        return of("unavailable" if passes else "internal-error", "the database cannot do it")
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return 404, "There is no such page", request.url.path[:200], "Go to the list of jobs."
    return error.status_code, "This cannot be done", str(error.detail), "Go back, and try another way."


def of(problem: str, detail: str) -> tuple[int, str, str, str]:
    known = PROBLEMS[problem]
    return known.status, known.title, detail, known.remedy


def led_to_login(request: Request) -> Response:
    """Lead to the login. A request of htmx, which wants a part of a page, is told to load the whole page there."""
    part = "hx-request" in request.headers
    asked = request.headers.get("hx-current-url", "") if part else str(request.url)
    place = frame.address("/console/login", next=local(asked) if request.method == "GET" else None)
    if part:
        return Response(status_code=401, headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)


def local(url: str) -> str | None:
    """Return the path of an address of the console; None for any other."""
    at = url.find(f"{PLACE}/")
    path = url[at:] if at >= 0 else ""
    return path if path and not path.startswith(f"{PLACE}/login") else None
