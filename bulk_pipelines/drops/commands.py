"""`bulk drops …`. What a command needs is imported when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bulk_pipelines import output, settings
from bulk_pipelines.drops.shown import DropRetried, DropShown
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from bulk_pipelines.drops.sources import DropSource

STATES = ["watched", "taken", "done", "duplicate", "failed", "vanished", "unmatched"]


def known_sources() -> "list[DropSource]":
    from bulk_pipelines import resources
    from bulk_pipelines.drops import sources

    chosen = settings.current()
    return sources.load(chosen.drops_file, [each.name for each in resources.known()], chosen.home / "inbox")


@click.group(name="drops")
def group() -> None:
    """Look at files that were dropped at a source; take one again that failed."""


@group.command("list")
@click.option("--source", help="Only files of this source.")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only files in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many to show.")
@output.shows(DropShown, many=True)
def list_files(source: str | None, state: str | None, limit: int) -> None:
    """List dropped files, the newest first. A mistake in the file of the sources, which stops all looks, is shown
    last."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.drops import showing, sources

    with transaction(connected()) as connection:
        found = showing.page(connection, source, state.upper() if state else None, limit)
    shown = [DropShown(each.at, each.source, each.path, each.status, each.job_key, each.note) for each in found]
    nothing = "no file is in the ledger" if source is None and state is None else "no such file is in the ledger"
    output.show(shown, "\n".join(map(line_of, shown)) or nothing)
    if sources.are_named(settings.current().drops_file):
        known_sources()


def line_of(each: DropShown) -> str:
    parts = [f"{each.at:%Y-%m-%d %H:%M:%S}", each.source, each.path, each.state, each.job or "", each.note or ""]
    return "  ".join(part for part in parts if part)


@group.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--source", help="The source, where several know a file of that name.")
@output.shows(DropRetried, many=True)
def retry(files: Sequence[str], source: str | None) -> None:
    """Take files again whose import failed: FILE as `bulk drops list` names it. It is put back to where it was."""
    from bulk_pipelines.drops import retry
    from bulk_pipelines.storage.access import access_of

    chosen = settings.current()
    pool = connected()
    configured = {each.name: each for each in known_sources()}
    done = []
    for path in files:
        file = retry.retry(pool, configured, access_of(chosen), path, source)
        done.append(DropRetried(file.source, path))
    output.show(done, "\n".join(f"{each.source}: {each.path} is taken again by the next look" for each in done))
