"""Login and logout. Somebody shows a key once; from then on the browser bears a cookie."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners import keys, sessions
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.console import access, frame
from bulk_pipelines.console.access import Viewer
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.errors import Unauthenticated

router = APIRouter()
Next = Annotated[str | None, Query(max_length=2_000)]


@router.get("/login")
def show(request: Request, next: Next = None) -> Response:  # noqa: A002 - the word in the address
    return form(request, next)


def form(request: Request, place: str | None, wrong: str | None = None, status: int = 200) -> Response:
    token = sessions.token_of(request.cookies | request.state.made_cookies, "")
    text = frame.templates().get_template("login.html").render(token=token, next=within(place), wrong=wrong)
    return HTMLResponse(text, status)


def within(place: str | None) -> str:
    """Return the page to go to after the login. It is always one of the console's, whatever the address says."""
    plain = place or ""
    return plain if plain.startswith("/console/") and "\\" not in plain and plain.isprintable() else frame.HOME


@router.post("/login")
async def log_in(request: Request, door: TheDoor) -> Response:
    sent = await access.form_of(request)
    access.refuse_strange(request, "", sent)
    try:
        text = await run_in_threadpool(begun, request, door, sent.one("key"))
    except Unauthenticated as error:
        return form(request, sent.one("next"), str(error), 401)
    request.state.session_cookie = text
    return RedirectResponse(within(sent.one("next")), 303)


def begun(request: Request, door: Door, text: str) -> str:
    """Begin a session of a key. Every login begins a new one, so that nobody can foist an old one on the browser."""
    with transaction(door.pool) as connection:
        key = keys.verified(connection, text)
        if key is None:
            raise Unauthenticated("the key is unknown, revoked or expired")
        peer = request.client.host if request.client else None
        actor = Actor(key.owner, "api", peer, request.state.trace.request_id, key.scope is Scope.ADMIN)
        return sessions.begin(connection, key, actor, door.settings.session_hours)


@router.post("/logout")
async def log_out(request: Request, door: TheDoor, caller: Viewer) -> Response:
    access.refuse_strange(request, caller.session_id, await access.form_of(request))

    def ended() -> None:
        if caller.session is not None:
            with transaction(door.pool) as connection:
                sessions.end(connection, caller.session, caller.actor)
            request.app.state.remembered.forget()

    await run_in_threadpool(ended)
    response = RedirectResponse("/console/login", 303)
    response.delete_cookie(sessions.COOKIE, path="/", httponly=True, samesite="strict")
    return response
