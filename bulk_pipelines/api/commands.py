"""`bulk keys` and `bulk audit`. What a command needs is imported when it runs."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from bulk_pipelines import output, suggestions
from bulk_pipelines.api.shown import KeyMade, KeyShown
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from bulk_pipelines.api.owners.keys import Key
    from bulk_pipelines.engine.jobs.audit import Entry

UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Expiry(click.ParamType[datetime]):
    """A time to come: a date, or an age that a key may reach, such as 12h, 90d or 52w."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        found = re.fullmatch(r"(\d{1,5})([hdw])", str(value))
        if found is not None:
            return datetime.now(UTC) + int(found[1]) * UNITS[found[2]]
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a date such as 2027-01-31 nor an age such as 90d", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.group(name="keys")
def group() -> None:
    """Make, list and revoke keys to the HTTP API."""


@group.command()
@click.option("--owner", required=True, help="The owner whose jobs the key sees and submits.")
@click.option(
    "--scope",
    type=click.Choice(["reconcile", "read", "write", "admin"]),
    default="write",
    show_default=True,
    help="What the key may do. Each scope may also do what those before it may.",
)
@click.option("--admin", is_flag=True, help="The same as --scope admin, which sees the jobs of all owners.")
@click.option(
    "--expires", type=Expiry(), help="When the key ends: on 2027-01-31, or after 12h, 90d, 52w. Without it, never."
)
@output.shows(KeyMade)
def create(owner: str, scope: str, admin: bool, expires: datetime | None) -> None:
    """Make a key. It is shown once, and nobody can find it out again."""
    from bulk_pipelines.api.owners import keys
    from bulk_pipelines.api.owners.keys import Scope
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.terminal import commanding

    with transaction(connected()) as connection:
        key, text = keys.create(connection, owner, Scope.ADMIN if admin else Scope(scope), expires, commanding.actor())
    click.echo(f"key {key.key_id} of {key.owner} ({key.scope}); keep it now, it is not shown again:", err=True)
    output.show(KeyMade(key.key_id, key.owner, str(key.scope), text), text)


@group.command("list")
@output.shows(KeyShown, many=True)
def list_keys() -> None:
    """List all keys, the newest first, and when each was last used."""
    from bulk_pipelines.api.owners import keys
    from bulk_pipelines.database.pool import transaction

    with transaction(connected()) as connection:
        found = keys.every(connection)
    nothing = "no keys: the API listens on loopback only, and lets everybody in there"
    output.show([shown_of(key) for key in found], "\n".join(map(line_of, found)) or nothing)


def shown_of(key: "Key") -> KeyShown:
    return KeyShown(
        key.key_id,
        key.owner,
        str(key.scope),
        key.state,
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.last_used_at,
    )


def line_of(key: "Key") -> str:
    used = f"used {key.last_used_at:%Y-%m-%d %H:%M}" if key.last_used_at else "never used"
    ends = f", expires {key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else ""
    return f"{key.key_id}  {key.scope:9}  {key.state:7}  {key.owner}  made {key.created_at:%Y-%m-%d}, {used}{ends}"


@group.command()
@click.argument("key_id")
@output.shows(KeyShown)
def revoke(key_id: str) -> None:
    """Refuse a key from now on."""
    from bulk_pipelines.api.owners import keys
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.terminal import commanding

    with transaction(connected()) as connection:
        key = keys.revoke(connection, key_id, commanding.actor())
    output.show(shown_of(key), f"key {key.key_id} of {key.owner} is revoked")


@click.command("audit")
@click.option("--job", "job_key", shell_complete=suggestions.jobs, help="Only what was done to this job.")
@click.option("--actor", help="Only what this user did.")
@click.option("--action", help="Only this: submit, pause, cancel, …")
@click.option("--owner", help="Only what was done to the jobs of this owner.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000), help="How many to show.")
@output.shows("bulk_pipelines.engine.jobs.audit.Entry", many=True)
def show_audit(limit: int, **wanted: str | None) -> None:
    """Show who did what to which job, the newest first."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import audit
    from bulk_pipelines.engine.jobs.audit import Wanted

    with transaction(connected()) as connection:
        found = audit.page(connection, Wanted(**wanted), limit)  # type: ignore[arg-type]
    output.show(found, "\n".join(map(line_of_entry, found)) or "there are no such entries")


def line_of_entry(each: "Entry") -> str:
    where = f" from {each.address}" if each.address else ""
    request = f", request {each.request_id}" if each.request_id else ""
    details = " ".join(f"{name}={value}" for name, value in each.details.items())
    about = f"{each.job_key} of {each.owner}" if each.job_key else f"for {each.owner}"
    return (
        f"{each.happened_at:%Y-%m-%d %H:%M:%S}  {each.actor} ({each.origin}{where}{request})"
        f"  {each.action} {about}{'  ' + details if details else ''}"
    )
