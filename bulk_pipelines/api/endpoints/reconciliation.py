"""References as services of the W3C Reconciliation API, in the versions 0.2 and 1.0-draft."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from bulk_pipelines.api.door import Door, TheDoor
from bulk_pipelines.api.owners.callers import KEY_IN_ADDRESS, REFERENCES, Anybody, Caller, Needs, Reader
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving.documentation import templates
from bulk_pipelines.errors import InvalidInput, NotFound, Unauthenticated
from bulk_pipelines.processing import results
from bulk_pipelines.processing.serving import draft, extending, offered, stable, suggesting
from bulk_pipelines.processing.serving.offered import Service

PREFIX = REFERENCES
router = APIRouter(prefix=PREFIX, tags=["reconciliation"])
WITH_KEY = [Depends(Needs(Scope.RECONCILE))]
"""All endpoints but the manifests, which the specification shows to everybody, need a key."""
KEY_OR_NONE: dict[str, list[dict[str, list[str]]]] = {"security": [{}]}
"""Adds to the description of an endpoint that it answers without a key, too."""

Name = Annotated[str, Path(description="A recipe of the type match.", max_length=63, examples=["companies"])]
Kind = Literal["entity", "type", "property"]
Prefix = Annotated[str, Query(description="What was typed so far.", max_length=1_000)]
Cursor = Annotated[int, Query(description="How many suggestions to pass over.", ge=0, le=10_000)]
Id = Annotated[str, Query(alias="id", description="The id of an entry.", max_length=1_000)]
OfType = Annotated[str | None, Query(alias="type", description="The type of the entries.", max_length=1_000)]
Limit = Annotated[int | None, Query(description="How many at most.", ge=1)]
Json = dict[str, Any]
AUTHENTICATION = {
    "type": "apiKey",
    "in": "header",
    "name": "Authorization",
    "description": "Bearer, a space, and a key: `bulk keys create --owner NAME --scope reconcile` makes one.",
}


STRANGE = "A reference of bulk_pipelines"
"""What strangers are told of every name, whether there is such a reference or not."""


def address_of(request: Request, name: str, version: str) -> str:
    key = request.scope["state"].get(KEY_IN_ADDRESS)
    within = "" if key is None else f"/~{key}"
    return f"{str(request.base_url).rstrip('/')}{PREFIX}{within}/{quote(name)}{version}"


def service_of(door: Door, request: Request, name: str, version: str = "") -> Service:
    return offered.opened(door.pool, door.settings, name, address_of(request, name, version))


def shown(
    door: Door, request: Request, caller: Caller | None, manifest: Callable[[str, str], Json], name: str, version: str
) -> Json:
    """Return a manifest. It says how a client shows its key, unless the key stands in the address or none is needed.
    Whoever has no key gets the same manifest for every name, because strangers may neither make us load a file nor
    learn which references there are."""
    if caller is None:
        return manifest(STRANGE, address_of(request, name, version)) | {"authentication": dict(AUTHENTICATION)}
    found = service_of(door, request, name, version)
    offered.refreshed(found)
    told = manifest(found.name, found.address)
    needless = "authorization" not in request.headers or KEY_IN_ADDRESS in request.scope["state"]
    return told if needless else told | {"authentication": dict(AUTHENTICATION)}


@router.get("", summary="The references that can be asked")
def list_services(door: TheDoor, _: Reader) -> Json:
    """Lists the references of this installation: one for each recipe of the type match."""
    return {"services": offered.names(door.settings)}


@router.get("/{name}", summary="The manifest, or answers, in version 0.2", openapi_extra=KEY_OR_NONE)
def stable_manifest(
    name: Name,
    door: TheDoor,
    request: Request,
    caller: Anybody,
    queries: Annotated[str | None, Query(description="A batch of queries, as JSON.")] = None,
    extend: Annotated[str | None, Query(description="Entries and properties, as JSON.")] = None,
) -> Json:
    """Returns the service's manifest, to everybody. With `queries` or `extend` it answers them, as a POST does."""
    if queries is None and extend is None:
        return shown(door, request, caller, stable.manifest, name, "")
    if caller is None:
        raise Unauthenticated("a key is needed")
    return answered(service_of(door, request, name), queries, extend)


@router.post(
    "/{name}",
    dependencies=WITH_KEY,
    summary="Queries, or more about entries, in version 0.2",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": {
                        "type": "object",
                        "properties": {"queries": {"type": "string"}, "extend": {"type": "string"}},
                    },
                    "example": {"queries": '{"q0": {"query": "Blue Bottle Coffee"}}'},
                }
            },
        }
    },
)
async def stable_answer(name: Name, door: TheDoor, request: Request) -> Json:
    """Answers a batch of `queries`, or shows more about entries (`extend`); both are JSON in a field of a form."""
    body = await request.body()

    def work() -> Json:
        form = form_of(body)
        return answered(service_of(door, request, name), form.get("queries"), form.get("extend"))

    return await run_in_threadpool(work)


def form_of(body: bytes) -> dict[str, str]:
    try:
        return {key: values[0] for key, values in parse_qs(body.decode(), max_num_fields=100).items()}
    except ValueError:
        raise InvalidInput("body", "is no form (application/x-www-form-urlencoded)") from None


def answered(found: Service, queries: str | None, extend: str | None) -> Json:
    if (queries is None) == (extend is None):
        raise InvalidInput("queries", "send one of queries and extend")
    if extend is not None:
        return stable.extended(found, value_of("extend", extend))
    batch = value_of("queries", queries or "")
    return stable.answer(found.index(), batch, found.model)


def value_of(field: str, text: str | bytes) -> Any:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate is JSON, and no text
    except (ValueError, RecursionError):
        raise InvalidInput(field, "is no JSON, or holds half a character") from None
    return value


@router.get("/{name}/suggest/{kind}", dependencies=WITH_KEY, summary="Complete what was typed, in version 0.2")
def stable_suggest(name: Name, kind: Kind, door: TheDoor, request: Request, prefix: Prefix, cursor: Cursor = 0) -> Json:
    """Suggests entries, types or properties."""
    return suggested(service_of(door, request, name), kind, prefix, cursor)


@router.get("/{name}/properties", dependencies=WITH_KEY, summary="The properties of entries, in version 0.2")
def stable_properties(name: Name, door: TheDoor, request: Request, of: OfType = None, limit: Limit = None) -> Json:
    """Names the properties that `extend` can show."""
    return extending.proposed(service_of(door, request, name), of, limit)


@router.get("/{name}/preview", dependencies=WITH_KEY, summary="An entry as a small page", response_class=HTMLResponse)
def stable_preview(name: Name, door: TheDoor, request: Request, entry: Id) -> HTMLResponse:
    """Shows an entry to people."""
    return preview(service_of(door, request, name), entry)


DRAFT = f"/{draft.VERSION}"


@router.get("/{name}" + DRAFT, summary="The manifest, in version 1.0-draft", openapi_extra=KEY_OR_NONE)
def draft_manifest(name: Name, door: TheDoor, request: Request, caller: Anybody) -> Json:
    """Returns the service's manifest, to everybody."""
    return shown(door, request, caller, draft.manifest, name, DRAFT)


def body_of(schema: str) -> Json:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": {"description": schema}}}}}


async def answered_json(door: Door, request: Request, name: str, work: Callable[[Service, Any], Json]) -> Json:
    body = await request.body()
    return await run_in_threadpool(lambda: work(service_of(door, request, name, DRAFT), value_of("body", body)))


@router.post(
    "/{name}" + DRAFT + "/match",
    dependencies=WITH_KEY,
    summary="Queries, in version 1.0-draft",
    openapi_extra=body_of("queries"),
)
async def draft_answer(name: Name, door: TheDoor, request: Request) -> Json:
    """Answers a batch of queries."""
    return await answered_json(
        door, request, name, lambda found, batch: draft.answer(found.index(), batch, found.model)
    )


@router.post(
    "/{name}" + DRAFT + "/extend",
    dependencies=WITH_KEY,
    summary="More about entries, 1.0-draft",
    openapi_extra=body_of("ids"),
)
async def draft_extend(name: Name, door: TheDoor, request: Request) -> Json:
    """Shows the values that entries have in some properties."""
    return await answered_json(door, request, name, draft.extended)


@router.get(
    "/{name}" + DRAFT + "/extend/propose",
    dependencies=WITH_KEY,
    summary="The properties of entries, in version 1.0-draft",
)
def draft_properties(name: Name, door: TheDoor, request: Request, of: OfType = None, limit: Limit = None) -> Json:
    """Names the properties that `extend` can show."""
    return extending.proposed(service_of(door, request, name), of, limit)


@router.get(
    "/{name}" + DRAFT + "/suggest/{kind}",
    dependencies=WITH_KEY,
    summary="Complete what was typed, in version 1.0-draft",
)
def draft_suggest(name: Name, kind: Kind, door: TheDoor, request: Request, prefix: Prefix, cursor: Cursor = 0) -> Json:
    """Suggests entries, types or properties."""
    return suggested(service_of(door, request, name), kind, prefix, cursor)


@router.get(
    "/{name}" + DRAFT + "/preview",
    dependencies=WITH_KEY,
    summary="An entry as a small page, 1.0-draft",
    response_class=HTMLResponse,
)
def draft_preview(name: Name, door: TheDoor, request: Request, entry: Id) -> HTMLResponse:
    """Shows an entry to people."""
    return preview(service_of(door, request, name), entry)


def suggested(found: Service, kind: Kind, prefix: str, cursor: int) -> Json:
    return suggesting.suggest(found.index(), kind, prefix, cursor, found.columns)


def preview(found: Service, entry: str) -> HTMLResponse:
    known = found.values([entry], found.columns).get(entry) if "\0" not in entry else None
    if known is None:
        raise NotFound(f"there is no entry {entry[:100]!r}")
    shown = {name: text for name, value in known.items() if (text := results.shown(value))}
    page = templates().get_template("preview.html").render(title=found.name, values=shown)
    # The page has no script and loads nothing. Clients are meant to embed it, so it may stand in a frame.
    return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})
