"""The work of one item: one notice is sent to one receiver. It may arrive more than once, always under the same id."""

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Done, Outcome, Skip
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.notices import sending, subscriptions
from bulk_pipelines.telemetry import context, spans


def handle(lease: Lease, tools: Tools) -> Outcome:
    with transaction(tools.pool) as connection:
        found = subscriptions.every(connection, lease.input["subscription"])
    if not found:
        return Skip("the subscription was removed")
    about = lease.input.get("trace_parent") or context.present().trace_parent
    with context.about(trace_parent=about), spans.span("notify", "client", type=lease.input["body"]["type"]):
        status = sending.send(found[0], lease.input["id"], lease.input["body"], settings.current())
    return Done({"status": status})
