"""Who looks at a page, and whether a form came from a page of ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners import sessions
from bulk_pipelines.api.owners.callers import Caller, key_in, known
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Forbidden, InvalidInput

TOKEN = "token"  # noqa: S105 - the name of a field
MOST_FIELDS = 200_000


async def viewer(request: Request, door: TheDoor) -> Caller:
    """Return who looks at a page. If the secret of the session is old, the answer brings another one."""
    caller = await known(request)
    if caller.session is not None and caller.session.is_old and request.method == "GET":
        text = request.cookies[sessions.COOKIE]
        request.state.session_cookie = await run_in_threadpool(changed, door, text)
    return caller


def changed(door: Door, text: str) -> str | None:
    with transaction(door.pool) as connection:
        return sessions.changed(connection, text)


async def watcher(request: Request) -> Caller:
    """Return who watches an open page. The secret of the session stays as it is, because only the answer to a page
    brings another one."""
    return await known(request)


async def administrator(caller: Annotated[Caller, Depends(viewer)]) -> Caller:
    if not caller.scope.covers(Scope.ADMIN):
        raise Forbidden("only administrators see this page")
    return caller


Viewer = Annotated[Caller, Depends(viewer)]
Watcher = Annotated[Caller, Depends(watcher)]
Administrator = Annotated[Caller, Depends(administrator)]


@dataclass(frozen=True)
class Form:
    """The fields of a form that somebody sent."""

    fields: Mapping[str, list[str]]

    def one(self, name: str, otherwise: str = "") -> str:
        return self.fields.get(name, [otherwise])[-1].strip()

    def every(self, name: str) -> list[str]:
        return self.fields.get(name, [])


async def form_of(request: Request) -> Form:
    body = await request.body()
    try:
        return Form(parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:
        raise InvalidInput("form", "is not UTF-8, or has too many fields") from None


@dataclass(frozen=True)
class Posted:
    """A form, and who sent it."""

    caller: Caller
    form: Form

    def __post_init__(self) -> None:
        if not self.caller.scope.covers(Scope.WRITE):
            raise Forbidden("this key may only read: it changes nothing")


async def posted(request: Request) -> Posted:
    """Return a form that came from a page of the console: it bears the token of this browser. A request that shows a
    key comes from no browser, and needs no token."""
    caller = await known(request)
    form = await form_of(request)
    if not key_in(request):
        refuse_strange(request, caller.session_id, form)
    return Posted(caller, form)


async def posted_by_admin(given: Annotated[Posted, Depends(posted)]) -> Posted:
    if not given.caller.scope.covers(Scope.ADMIN):
        raise Forbidden("only administrators may do this")
    return given


Sent = Annotated[Posted, Depends(posted)]
SentByAdmin = Annotated[Posted, Depends(posted_by_admin)]


def refuse_strange(request: Request, session_id: str, form: Form) -> None:
    """Refuse a form that does not come from a page which this browser got from the console."""
    given = form.one(TOKEN) or request.headers.get(sessions.TOKEN_HEADER, "")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Forbidden("the form comes from another site")
    if not sessions.is_token(request.cookies, session_id, given):
        raise Forbidden("the page is out of date: go back, load it again, and send the form once more")
