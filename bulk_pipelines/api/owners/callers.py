"""Who asks: the owner of a key, the user that a trusted proxy names, or, while no key was ever made, whoever sits at
this machine."""

import asyncio
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from bulk_pipelines.api.door import Door, door_of
from bulk_pipelines.api.owners import keys, sessions
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.owners.sessions import Session
from bulk_pipelines.api.serving.tracing import Trace
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import Forbidden, Unauthenticated
from bulk_pipelines.terminal import commanding

REMEMBERED_SECONDS = 1.0
"""The time for which a key that was found valid is not looked up again: a revoked key may work for that long."""
MOST_REMEMBERED = 1_000
READING = {"GET", "HEAD", "OPTIONS"}
KEY_IN_ADDRESS = "key_in_address"
"""The name under which the state of a request has the key that stood in its address."""
REFERENCES = "/reconcile"
"""The address of the references. What stands below it changes nothing, and tells of references only."""


@dataclass(frozen=True)
class Caller:
    """Who asks, what they may do, and by which ids their request is known."""

    actor: Actor
    scope: Scope
    trace: Trace
    session: Session | None = None
    """The session that a browser's cookie stands for; None where a key or a proxy says who asks."""

    @property
    def session_id(self) -> str:
        """What the tokens of this caller's forms are bound to."""
        return self.session.session_id if self.session else ""

    def sender(self, owner: str, idempotency_key: str | None = None, priority: int = 0) -> Sender:
        """Return this caller as the sender of a job of the owner."""
        return Sender(
            owner,
            "api",
            idempotency_key,
            self.trace.request_id,
            self.trace.trace_parent,
            priority,
            by=self.actor.name,
            address=self.actor.address,
        )


Shown = tuple[str, str, bool]
"""What a request shows: its key, its cookie, and whether a program of this machine asks by itself."""


@dataclass(frozen=True)
class Known:
    """What a key or a cookie stands for."""

    actor: Actor
    scope: Scope
    session: Session | None = None


class Remembered:
    """What keys and cookies were just found to stand for, so that each request of a busy client does not cost one more
    query."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.found: dict[Shown, tuple[float, Known]] = {}
        self.under_way: dict[Shown, asyncio.Task[Known]] = {}

    def get(self, shown: Shown, seconds: float) -> "Known | None":
        """Return what was found out within the last seconds."""
        known = self.found.get(shown)
        return None if known is None or known[0] + seconds < self.now() else known[1]

    def put(self, shown: Shown, known: "Known") -> None:
        if len(self.found) >= MOST_REMEMBERED:
            self.found.clear()
        self.found[shown] = (self.now(), known)

    async def once(self, shown: Shown, look: Callable[[], "Known"]) -> "Known":
        """Find out what a key or cookie stands for. Whoever asks for the same one meanwhile waits for this answer."""
        task = self.under_way.get(shown)
        if task is None:
            task = asyncio.create_task(run_in_threadpool(look))
            self.under_way[shown] = task
            task.add_done_callback(lambda _: self.under_way.pop(shown, None))
        known = await asyncio.shield(task)
        self.put(shown, known)
        return known

    def forget(self) -> None:
        """Look everything up again, because somebody has just logged out."""
        self.found.clear()


def key_in(request: Request) -> str:
    """Return the key that a request shows in its header; nothing if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


async def known(request: Request) -> Caller:
    """Find out who asks. Raise `Unauthenticated` if that cannot be told. What was found out a moment ago is not looked
    up again."""
    door = await door_of(request)
    peer = request.client.host if request.client else ""
    trace = request.state.trace
    if door.trusts(peer):
        users = request.headers.getlist(door.settings.api_user_header)
        if len(users) > 1:
            raise Unauthenticated(f"the header {door.settings.api_user_header} is there {len(users)} times")
        user = "".join(users).strip()
        if user:
            name = payload.text(door.settings.api_user_header, user)
            scope = Scope.ADMIN if name in door.admins else Scope.WRITE
            return Caller(actor_of(name, scope, behind(request, door, peer), trace), scope, trace)
        peer = behind(request, door, peer)
    key = key_in(request)
    if not key and "authorization" in request.headers:
        raise Unauthenticated("the header Authorization must be: Bearer bulk_…")
    shown = (key, "") if key else ("", request.cookies.get(sessions.COOKIE, ""))
    remembered: Remembered = request.app.state.remembered
    # A key decides alone. A cookie may have ended, and then it matters whether a program of this machine asks.
    here = (*shown, not shown[0] and is_from_here(request))
    found = remembered.get(here, REMEMBERED_SECONDS)
    if found is None:
        look = partial(looked_up, request, door, *shown)
        found = await (remembered.once(here, look) if any(shown) else run_in_threadpool(look))
    refuse_strayed(request, found.scope)
    actor = replace(found.actor, address=peer or None, request_id=trace.request_id)
    return Caller(actor, found.scope, trace, found.session)


def looked_up(request: Request, door: Door, text: str, cookie: str) -> Known:
    with transaction(door.pool) as connection:
        if text:
            key = keys.verified(connection, text)
            if key is None:
                raise Unauthenticated("the key is unknown, revoked or expired")
            return Known(Actor(key.owner, "api", admin=key.scope is Scope.ADMIN), key.scope)
        session = sessions.find(connection, cookie) if cookie else None
        if session is not None:
            actor = Actor(session.owner, "api", admin=session.scope is Scope.ADMIN)
            return Known(actor, session.scope, session)
        if door.loopback and not door.proxies and is_from_here(request) and not keys.exist(connection):
            return Known(Actor(commanding.user(), "api"), Scope.ADMIN)
    raise Unauthenticated("the session is over: log in again" if cookie else "a key is needed")


def refuse_strayed(request: Request, scope: Scope) -> None:
    """Refuse a key of the scope `reconcile` outside the references. Refuse any other key that stands in an address,
    because the histories of browsers and the workspaces of programs keep addresses."""
    in_address = KEY_IN_ADDRESS in request.scope["state"]
    if in_address and scope is not Scope.RECONCILE:
        raise Forbidden("only a key of the scope reconcile may stand in an address: this one should be revoked")
    if scope is Scope.RECONCILE and not request.url.path.startswith(f"{REFERENCES}/"):
        raise Forbidden("this key asks references, and nothing else")


def refuse_forged(request: Request, caller: Caller) -> None:
    """Refuse what a page from elsewhere may have made a browser send: the browser adds its cookie to that, but not the
    token."""
    if caller.session is None or request.method in READING:
        return
    if not sessions.is_token(request.cookies, caller.session_id, request.headers.get(sessions.TOKEN_HEADER, "")):
        raise Forbidden(f"with a session, this needs the token of a page of the console in {sessions.TOKEN_HEADER}")


def actor_of(name: str, scope: Scope, address: str, trace: Trace) -> Actor:
    return Actor(name, "api", address or None, trace.request_id, admin=scope is Scope.ADMIN)


def behind(request: Request, door: Door, peer: str) -> str:
    """Return the address of the client behind trusted proxies: the last one in X-Forwarded-For that is not a trusted
    proxy's. Anybody could have written what stands before it. Several lines of the header are one list."""
    for each in reversed(",".join(request.headers.getlist("x-forwarded-for")).split(",")):
        try:
            address = str(ipaddress.ip_address(each.strip()))
        except ValueError:
            break
        peer = address
        if not door.trusts(address):
            break
    return peer


def is_from_here(request: Request) -> bool:
    """Whether a program of this machine asks, and not a page from elsewhere in somebody's browser. Such a page can send
    requests to this machine, even under a name of its own that it lets point here. Pages of other programs of this
    machine, such as OpenRefine's, may ask references."""
    origin = request.headers.get("origin")
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        page = urlsplit(origin or "")
        neighbour = is_loopback(page.hostname or "") and request.url.path.startswith(f"{REFERENCES}/")
    except ValueError:
        return False
    if not neighbour:
        if origin is not None and page.netloc != request.headers.get("host"):
            return False
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return False
    return is_loopback(host) and is_loopback(request.client.host if request.client else "")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Keyed(SecurityBase):
    """A dependency that looks at the key of a request, and that the description of the API shows as such. It depends on
    nothing else, because the framework resolves dependencies anew for every request, and that took half of the time."""

    model = HTTPBearer(description="A key: `bulk keys create --owner NAME` makes one.")
    scheme_name = "HTTPBearer"


class Needs(Keyed):
    """Lets in whoever has this scope or a wider one."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Caller:
        caller = await known(request)
        refuse_forged(request, caller)
        if not caller.scope.covers(self.scope):
            raise Forbidden(f"this needs the scope {self.scope}, and the key has {caller.scope}")
        return caller


class Whoever(Keyed):
    """Lets in everybody. A key that is shown must be valid all the same."""

    async def __call__(self, request: Request) -> Caller | None:
        try:
            return await known(request)
        except Unauthenticated:
            if "authorization" in request.headers:
                raise
            return None


Anybody = Annotated[Caller | None, Depends(Whoever())]
Reader = Annotated[Caller, Depends(Needs(Scope.READ))]
Writer = Annotated[Caller, Depends(Needs(Scope.WRITE))]
Administrator = Annotated[Caller, Depends(Needs(Scope.ADMIN))]

ForOwner = Annotated[str | None, Query(description="Administrators only: act for this owner.", max_length=200)]


def acting_for(caller: Caller, owner: str | None) -> str:
    """Return the owner of a new job. Only administrators may name somebody other than themselves."""
    if owner is None or owner == caller.actor.name:
        return caller.actor.name
    if not caller.actor.admin:
        raise Forbidden("only administrators act for others")
    return payload.text("owner", owner)


def looking_at(caller: Caller, owner: str | None) -> str | None:
    """Return the owner whose jobs are listed; None for the jobs of all. Only administrators see those of others."""
    if caller.actor.admin:
        return None if owner is None else payload.text("owner", owner)
    return acting_for(caller, owner)
