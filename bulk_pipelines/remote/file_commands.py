"""The commands that make files, on a server: exports and distributions."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import click

from bulk_pipelines import output
from bulk_pipelines.counted import counted
from bulk_pipelines.distribution import commands as distribution
from bulk_pipelines.distribution.shown import DistributionShown, DistributionSubmitted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import commands as exports
from bulk_pipelines.exports.report.shown import ExportShown
from bulk_pipelines.remote.commands import connected, group_of, over_http, written

if TYPE_CHECKING:
    from bulk_pipelines.client import Distribution, Export

FILES: dict[str, click.Command] = {}
"""The commands by their names."""
DISTRIBUTE: dict[str, click.Command] = {}


@over_http(exports.command, FILES)
def export(
    resource: str | None,
    table: str | None,
    query: TextIO | None,
    where: Sequence[str],
    idempotency_key: str | None,
    priority: int,
    to: str | None,
    **options: Any,
) -> None:
    from bulk_pipelines.remote import watching

    if query is not None:
        raise InvalidInput("--query", "a server exports only resources and tables: leave --server and BULK_SERVER out")
    if (resource is None) == (table is None):
        raise InvalidInput("--resource", "name either a resource or a table")
    given = {name: value for name, value in options.items() if value} | {"where": list(where) or None, "table": table}
    if to == "-":
        if idempotency_key is not None or priority:
            raise InvalidInput("--to", "an export to standard output is no job: leave the key and the priority out")
        with connected() as client:
            written(client.exports.stream(resource, **given), to)
        return
    elsewhere = to if to is not None and "://" in to else None
    with connected() as client, watching.screen() as screen:
        seen, made = client.exports.submitted(
            resource, idempotency_key=idempotency_key, priority=priority, to=elsewhere, **given
        )
        output.note(f"export {seen.job_id}" + ("" if made else ", submitted before"))
        look, cancel = partial(client.exports.get, seen.job_id), partial(client.exports.cancel, seen.job_id)
        seen = screen.watch(seen, client.news(seen.job_id), look, cancel, watching.gauge_of_export)
        location = seen.file_path or f"{client.connection.server}{seen.download_url}" if seen.good else None
        if seen.good and to is not None and elsewhere is None:
            location = str(fetched(client.exports.download(seen.job_id), place_of(to, f"{seen.job_id}-{seen.format}")))
    output.show(shown(seen, location, submitted_before=not made), summary(seen, location))
    output.end(seen.good)


def shown(seen: "Export", location: str | None, *, submitted_before: bool) -> ExportShown:
    """Return what the export came to, for programs. A server does not tell how long the writing alone has taken."""
    over = seen.completed_at
    return ExportShown(
        job=seen.job_id,
        submitted_before=submitted_before,
        state=seen.status.upper(),
        rows=seen.record_count if seen.good else None,
        bytes=seen.bytes if seen.good else None,
        sha256=seen.sha256,
        location=location,
        write_seconds=None,
        seconds=None if over is None else (over - seen.created_at).total_seconds(),
        rows_per_second=None,
        error=seen.failure_reason,
    )


def summary(seen: "Export", location: str | None) -> str:
    lines = [
        f"{seen.job_id} {seen.status.upper()}: {counted(seen.record_count, 'row')}, {counted(seen.bytes, 'byte')}",
        seen.failure_reason,
        location,
        f"sha256 {seen.sha256}" if seen.sha256 else None,
    ]
    return "\n".join(line for line in lines if line)


def place_of(to: str, name: str) -> Path:
    """Return the path to write: the file that `to` names, or a file of this name if `to` is a folder."""
    path = Path(to)
    return path / name if to.endswith("/") or path.is_dir() else path


def fetched(pieces: AbstractContextManager[Iterator[bytes]], place: Path) -> Path:
    """Write what the server sends to a file. The file appears whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with pieces as found, unfinished.open("wb") as target:
            for piece in found:
                target.write(piece)
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)
    return place


@over_http(distribution.group.commands["submit"], DISTRIBUTE)
def submit(request: BinaryIO, idempotency_key: str | None, priority: int) -> None:
    try:
        inputs = json.loads(request.read())["inputs"]
    except (ValueError, TypeError, KeyError):
        raise InvalidInput("REQUEST", 'is not JSON such as {"inputs": [...]}') from None
    with connected() as client:
        key = client.distributions.submit(inputs, idempotency_key=idempotency_key, priority=priority)
        output.show(DistributionSubmitted(key, client.distributions.get(key, size=1).status))


@over_http(distribution.group.commands["run"], DISTRIBUTE)
def run(job_key: str) -> None:
    from bulk_pipelines.remote import watching

    key = distribution.answered_key(sys.stdin.read()) if job_key == "-" else job_key
    with connected() as client, watching.screen() as screen:
        look, cancel = partial(client.distributions.get, key, size=10), partial(client.jobs.cancel, key)
        seen = screen.watch(look(), client.news(key), look, cancel, watching.gauge_of_distribution)
        output.show(distribution_shown(seen))
    output.end(seen.good)


@over_http(distribution.group.commands["status"], DISTRIBUTE)
def status(job_key: str, size: int, after: str | None) -> None:
    with connected() as client:
        output.show(distribution_shown(client.distributions.get(job_key, size=size, after=after)))


def distribution_shown(seen: "Distribution") -> DistributionShown:
    cancelled = seen.total - seen.pending - seen.running - seen.done - seen.failed
    return DistributionShown(**vars(seen), retryWait=None, cancelled=cancelled)


FILES["distribute"] = group_of(distribution.group, DISTRIBUTE)
