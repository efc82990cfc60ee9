"""What can be imported and exported: the resources, and tables that are adopted."""

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from bulk_pipelines import resources
from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.owners.callers import Caller
from bulk_pipelines.console import frame
from bulk_pipelines.console.access import SentByAdmin, Viewer
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.database.session import own_schema
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.resources import adoption, reflection
from bulk_pipelines.resources.declaration import Resource

router = APIRouter()
RELOAD = "Dagster knows it when its code location has been loaded again: until then, its jobs wait."
SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


@router.get("/resources")
async def show(request: Request, caller: Viewer) -> Response:
    return await listed(request, caller)


async def listed(
    request: Request, caller: Caller, *, table: str = "", name: str = "", wrong: str | None = None
) -> Response:
    known: tuple[Resource, ...] = ()
    try:
        known = await run_in_threadpool(resources.known)
    except BulkError as error:
        wrong = wrong or str(error)
    values = {"resources": known, "table": table, "name": name, "wrong": wrong}
    return frame.page(request, caller, "resources.html", 400 if wrong else 200, **values)


def refuse_own(table: Resource) -> None:
    """Refuse a table of the program or of the database itself. Anybody with a key that may write could otherwise export
    the table of keys, or import into it."""
    if table.schema in (own_schema(), *SYSTEM):
        raise InvalidInput(
            "table", f"{'.'.join(table.place)} belongs to the program or to the database, and cannot be adopted"
        )


@router.post("/resources")
async def adopt(request: Request, door: TheDoor, sent: SentByAdmin) -> Response:
    """Adopt a table: from then on everybody whose key may write can import into it and export it."""
    by, table, name = sent.caller.actor, sent.form.one("table"), sent.form.one("name")
    provenance = sent.form.one("provenance") == "true"

    def adopted() -> Resource:
        with transaction(door.pool) as connection:
            refuse_own(reflection.reflect(connection, table))
            made, _ = adoption.adopt(connection, door.settings, table, name or None, provenance=provenance, again=False)
            audit.note_other(connection, by, "adopt", by.name, resource=made.name, table=".".join(made.place))
        return made

    try:
        made = await run_in_threadpool(adopted)
    except BulkError as error:
        return await listed(request, sent.caller, table=table, name=name, wrong=str(error))
    return frame.onward("/console/resources", f"{made.name} is adopted. {RELOAD}")
