"""What stands around every page: the environment of the templates, and the answer with its headers."""

from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.owners import sessions
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.console import shown, statics

HOME = "/console/jobs"
SAID_COOKIE = "bulk_said"
"""The cookie with what came of a form. The next page says it first."""


@cache
def templates() -> Environment:
    made = Environment(
        loader=PackageLoader("bulk_pipelines.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=shown.number,
        size=shown.size,
        several=shown.several,
        span=shown.span,
        when=shown.when,
        plain=shown.plain,
        pretty=shown.pretty,
        kind=shown.kind,
        job_state=shown.job_state,
        item_state=shown.item_state,
    )
    made.globals.update(
        static=statics.address,
        address=address,
        took=shown.took,
        host=shown.host,
        origins=shown.ORIGINS,
    )
    return made


def address(path: str, /, **query: Any) -> str:
    """Return an address, with the parameters that have a value."""
    given = {name: value for name, value in query.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def page(request: Request, caller: Caller, template: str, status: int = 200, **values: Any) -> Response:
    """Answer with a whole page."""
    said = request.cookies.get(SAID_COOKIE)
    text = part(request, caller, template, said=unquote(said)[:1_000] if said else None, **values)
    response = HTMLResponse(text, status)
    if said:
        response.delete_cookie(SAID_COOKIE, path="/console")
    return response


def part(request: Request, caller: Caller, template: str, **values: Any) -> str:
    """Return a template as this caller sees it: a page, or a part of one that is shown already."""
    door: Door = request.app.state.door
    return (
        templates()
        .get_template(template)
        .render(
            request_path=request.url.path,
            caller=caller,
            may_write=caller.scope.covers(Scope.WRITE),
            admin=caller.actor.admin,
            is_open=caller.session is None and door.loopback and not door.proxies,
            token=sessions.token_of(request.cookies | request.state.made_cookies, caller.session_id),
            pending_shown=door.settings.pending_dashboard,
            **values,
        )
    )


def onward(place: str, said: str | None = None) -> Response:
    """Lead to a page, which first says what was done."""
    response = RedirectResponse(place, 303)
    if said:
        response.set_cookie(
            SAID_COOKIE, quote(said[:1_000]), max_age=60, path="/console", httponly=True, samesite="strict"
        )
    return response
