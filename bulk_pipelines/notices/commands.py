"""`bulk notify …`: who is told of what. What a command needs is imported when it runs."""

from typing import TYPE_CHECKING

import click

from bulk_pipelines import output, settings
from bulk_pipelines.notices.shown import NoticeTested, SubscriptionAdded, SubscriptionRemoved, SubscriptionShown

if TYPE_CHECKING:
    from sqlalchemy import Engine

KNOWN = ["job.ended", "job.failed", "job.dead_letters", "job.error_rate", "source.down", "source.silent"]


def connected() -> "Engine":
    from bulk_pipelines.database import ready

    return ready.opened(settings.current(), "bulk cli")


@click.group(name="notify")
def group() -> None:
    """Who is told, by signed requests (webhooks), when a job has ended or a source is down."""


@group.command()
@click.argument("address")
@click.option("--owner", required=True, help="Whose jobs it is about.")
@click.option("--on", "types", multiple=True, required=True, type=click.Choice(KNOWN), help="Of what; may be repeated.")
@click.option("--all-owners", is_flag=True, help="The jobs of all owners, and sources.")
@click.option("--error-rate", default=0.1, show_default=True, help="job.error_rate: the share above which it is told.")
@click.option(
    "--silent-hours", default=24.0, show_default=True, help="source.silent: after how long without a dropped file."
)
@click.option("--private", is_flag=True, help="The receiver may lie in a private network or on this machine.")
@output.shows(SubscriptionAdded)
def add(address: str, owner: str, types: tuple[str, ...], silent_hours: float, **options: float) -> None:
    """Send notices to ADDRESS. The secret that signs them is shown once."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.notices import subscriptions
    from bulk_pipelines.notices.request import HOUR, EventType

    with transaction(connected()) as connection:
        made = subscriptions.add(
            connection,
            commanding.actor(),
            owner,
            address,
            [EventType(each) for each in types],
            silent_seconds=silent_hours * HOUR,
            **options,
        )
    click.echo(f"subscription {made.subscription_id}; keep its secret now, it is not shown again:", err=True)
    output.show(SubscriptionAdded(made.subscription_id, made.secret), made.secret)


@group.command("list")
@output.shows(SubscriptionShown, many=True)
def list_subscriptions() -> None:
    """All subscriptions."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.notices import subscriptions

    with transaction(connected()) as connection:
        found = subscriptions.every(connection)
    shown = [
        SubscriptionShown(
            each.subscription_id,
            each.shown,
            None if each.all_owners else each.owner,
            [str(name) for name in each.types],
            each.error_rate,
            each.silent_seconds / 3600,
            each.private,
        )
        for each in found
    ]
    output.show(shown, "\n".join(map(line_of, shown)) or "nobody is told of anything")


def line_of(each: SubscriptionShown) -> str:
    private = ", private" if each.private else ""
    return (
        f"{each.subscription}  {each.address}  {each.owner or 'all owners'}  {' '.join(each.types)}"
        f"  (errors above {each.error_rate:.0%}, silent after {each.silent_hours:g} h{private})"
    )


@group.command()
@click.argument("subscription_id")
@output.shows(SubscriptionRemoved)
def remove(subscription_id: str) -> None:
    """Send no more notices to a subscription."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.notices import subscriptions

    with transaction(connected()) as connection:
        subscriptions.remove(connection, commanding.actor(), subscription_id)
    output.show(SubscriptionRemoved(subscription_id), f"subscription {subscription_id} is removed")


@group.command()
@click.argument("subscription_id")
@output.shows(NoticeTested)
def test(subscription_id: str) -> None:
    """Send a notice of the type `test` now, and say what was answered."""
    import secrets
    from datetime import UTC, datetime

    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.notices import sending, subscriptions

    with transaction(connected()) as connection:
        found = subscriptions.find(connection, subscription_id)
    notice_id = f"evt_test_{secrets.token_hex(8)}"
    body = {
        "id": notice_id,
        "type": "test",
        "timestamp": datetime.now(UTC).isoformat(),
        "owner": found.owner,
        "data": {},
    }
    answered = sending.send(found, notice_id, body, settings.current())
    output.show(NoticeTested(subscription_id, answered), f"answered {answered}")
