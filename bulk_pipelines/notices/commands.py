"""`bulk notify …`: who is told of what. What a command needs is imported when it runs."""

import click

from bulk_pipelines import output, settings
from bulk_pipelines.notices.shown import NoticeTried, SubscriptionLine, SubscriptionMade, SubscriptionRemoved
from bulk_pipelines.terminal.connecting import connected

KNOWN = ["job.ended", "job.failed", "job.dead_letters", "job.error_rate", "source.down", "source.silent"]


@click.group(name="notify")
def group() -> None:
    """Choose who is told, by signed requests (webhooks), when a job has ended or a source is down."""


@group.command()
@click.argument("address")
@click.option("--owner", required=True, help="The owner whose jobs the notices are about.")
@click.option(
    "--on",
    "types",
    multiple=True,
    required=True,
    type=click.Choice(KNOWN),
    help="An event to be told of; may be repeated.",
)
@click.option("--all-owners", is_flag=True, help="Tell of the jobs of all owners, and of sources.")
@click.option(
    "--error-rate", default=0.1, show_default=True, help="job.error_rate: the share of errors above which it is told."
)
@click.option(
    "--silent-hours",
    default=24.0,
    show_default=True,
    help="source.silent: the hours without a dropped file after which it is told.",
)
@click.option("--private", is_flag=True, help="The receiver may lie in a private network or on this machine.")
@output.shows(SubscriptionMade)
def add(address: str, owner: str, types: tuple[str, ...], silent_hours: float, **options: float) -> None:
    """Send notices to ADDRESS. The secret that signs them is shown once."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.notices import subscriptions
    from bulk_pipelines.notices.request import HOUR, EventType
    from bulk_pipelines.terminal import commanding

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
    output.show(SubscriptionMade(made.subscription_id, made.secret), made.secret)


@group.command("list")
@output.shows(SubscriptionLine, many=True)
def list_subscriptions() -> None:
    """List all subscriptions."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.notices import subscriptions

    with transaction(connected()) as connection:
        found = subscriptions.every(connection)
    lines = [
        SubscriptionLine(
            each.subscription_id,
            each.shown,
            each.owner,
            each.all_owners,
            [str(name) for name in each.types],
            each.error_rate,
            each.silent_seconds / 3600,
            each.private,
        )
        for each in found
    ]
    output.show(lines, "\n".join(map(as_text, lines)) or "nobody is told of anything")


def as_text(line: SubscriptionLine) -> str:
    whose = "all owners" if line.all_owners else line.owner
    private = ", private" if line.private else ""
    return (
        f"{line.subscription}  {line.receiver}  {whose}  {' '.join(line.types)}"
        f"  (errors above {line.error_rate:.0%}, silent after {line.silent_hours:g} h{private})"
    )


@group.command()
@click.argument("subscription_id")
@output.shows(SubscriptionRemoved)
def remove(subscription_id: str) -> None:
    """Send no more notices to a subscription."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.notices import subscriptions
    from bulk_pipelines.terminal import commanding

    with transaction(connected()) as connection:
        subscriptions.remove(connection, commanding.actor(), subscription_id)
    output.show(SubscriptionRemoved(subscription_id), f"subscription {subscription_id} is removed")


@group.command()
@click.argument("subscription_id")
@output.shows(NoticeTried)
def test(subscription_id: str) -> None:
    """Send a notice of the type `test` now, and say what the receiver answered."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.errors import Failure
    from bulk_pipelines.notices import sending, subscriptions

    with transaction(connected()) as connection:
        found = subscriptions.find(connection, subscription_id)
    trial = sending.tried(found, settings.current())
    if output.chosen(output.JSON):
        output.show(NoticeTried(**vars(trial)), "")
    elif trial.delivered:
        click.echo(trial.message)
    else:
        raise Failure(trial.message)
    output.end(trial.delivered)
