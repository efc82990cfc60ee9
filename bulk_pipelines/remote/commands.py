"""The commands that work on a server. Each has the name, the options and the help of the command that it replaces. What
a command needs is imported when it runs."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from bulk_pipelines import output, settings
from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports import commands as imports
from bulk_pipelines.imports.afterwards import commands as afterwards
from bulk_pipelines.imports.report.shown import ImportShown, RejectShown, RejectsShown, UndoShown, why

if TYPE_CHECKING:
    from bulk_pipelines.client import Client, Import
    from bulk_pipelines.remote.watching import Screen


COMMANDS: dict[str, click.Command] = {}
"""The commands by their names."""
IMPORTS: dict[str, click.Command] = {}


def server_of(context: click.Context) -> str:
    """Return the address of the server that the commands speak to; an empty text if they work on the database."""
    given: str | None = context.find_root().params.get("server")
    return given or settings.current().server


def over_http(
    command: click.Command, among: dict[str, click.Command] = COMMANDS
) -> Callable[[Callable[..., object]], click.Command]:
    """Return a decorator that makes a function the replacement of a command, and puts it among the commands."""

    def made(function: Callable[..., object]) -> click.Command:
        same = copy.copy(command)
        same.callback = function
        output.same_answer(command, function)
        among[str(command.name)] = same
        return same

    return made


def group_of(group: click.Group, commands: dict[str, click.Command]) -> click.Group:
    same = copy.copy(group)
    same.commands = commands
    return same


@contextmanager
def connected() -> Iterator["Client"]:
    from bulk_pipelines.client import Client

    with Client(server_of(click.get_current_context()), settings.current().api_key or None) as client:
        yield client


def written(pieces: AbstractContextManager[Iterator[bytes]], to: str | None) -> None:
    """Write what the server streams into a file, or to the output."""
    with pieces as found, click.open_file(to or "-", "wb") as target:
        for piece in found:
            target.write(piece)


PAIRS = ("dates", "map", "constants", "expressions")
"""The options that are written COLUMN=VALUE."""


@over_http(imports.group.commands["file"], IMPORTS)
def file(
    sources: tuple[str, ...],
    resource: str | None,
    table: str | None,
    idempotency_key: str | None,
    priority: int,
    preview: bool,
    **options: Any,
) -> None:
    from bulk_pipelines.remote import watching

    if (resource is None) == (table is None):
        raise InvalidInput("--resource", "name either a resource or a table")
    given = told(options)
    given |= {"resource": resource, "table": table}
    addresses = ["://" in source for source in sources]
    if preview:
        show_preview(sources, given)
        return
    with connected() as client, watching.screen() as screen:
        if any(addresses):
            if not all(addresses):
                raise InvalidInput("FILE", "files of this machine and addresses do not go to a server in one import")
            key = {} if idempotency_key is None else {"idempotency_key": idempotency_key}
            seen, made = client.imports.submit_address(list(sources), priority=priority, **given, **key), True
        else:
            seen, made = client.imports.submitted(
                sources, idempotency_key=idempotency_key, on_sent=screen.sent, priority=priority, **given
            )
        output.note(f"import {seen.job_id}" + ("" if made else ", submitted before"))
        seen = watched(client, screen, seen)
    ended(seen, submitted_before=not made)


def show_preview(sources: tuple[str, ...], given: dict[str, Any]) -> None:
    """Print how each file would be read, as the command that works on the database does."""
    from bulk_pipelines.imports.report import printing
    from bulk_pipelines.remote import previews

    asked = {name: value for name, value in given.items() if value is not None}
    shown = []
    with connected() as client:
        for source in sources:
            if "://" in source:
                raise InvalidInput("--preview", "a server previews only a file of this machine, which is sent to it")
            found = previews.of(client.imports.preview(source, **asked))
            told = printing.command(click.get_current_context(), found.reading)
            shown.append(printing.FilePreviewed(found, told))
    output.show(shown, printing.text(shown))
    if any(each.preview.problem is not None for each in shown):
        click.get_current_context().exit(1)


def told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as the client takes them."""
    from bulk_pipelines.formats.reading import Reading

    read = vars(Reading.of({name: value for name, value in options.items() if name in PAIRS}))
    return {name: dict(read[name]) if name in PAIRS else value for name, value in options.items() if value}


def watched(client: "Client", screen: "Screen", seen: "Import") -> "Import":
    from bulk_pipelines.remote import watching

    look, cancel = partial(client.imports.get, seen.job_id), partial(client.imports.cancel, seen.job_id)
    return screen.watch(seen, client.news(seen.job_id), look, cancel, watching.gauge_of_import)


def ended(seen: "Import", *, submitted_before: bool = False) -> None:
    """Print in a few lines what an import came to, and end the command with the exit code for it."""
    parts = [f"{seen.processed_records:,} read", f"{seen.successful_records:,} successful"]
    parts += [f"{seen.error_records:,} rejected"]
    parts += [f"{seen.superseded_records:,} superseded"] if seen.superseded_records else []
    parts += [f"{seen.unprocessed_records:,} unprocessed"] if seen.unprocessed_records else []
    lines = [f"{seen.job_id} {seen.status.upper()}: {', '.join(parts)}"]
    lines += [seen.failure_reason] if seen.failure_reason else []
    lines += [f"see them: bulk import errors {seen.job_id}"] if seen.error_records else []
    output.show(shown_of(seen, submitted_before=submitted_before), "\n".join(lines))
    output.end(seen.good, with_errors=seen.status == "completed_with_errors")


def shown_of(seen: "Import", *, submitted_before: bool) -> ImportShown:
    """Return what the server tells of an import. It does not tell the key of an upsert."""
    upsert = seen.mode == "upsert"
    total = (seen.completed_at - seen.created_at).total_seconds() if seen.completed_at else None
    loaded = seen.inserted_records + seen.updated_records + seen.unchanged_records
    return ImportShown(
        job=seen.job_id,
        submitted_before=submitted_before,
        state=seen.status.upper(),
        mode=seen.mode,
        match_on=None,
        read=seen.processed_records,
        loaded=loaded,
        inserted=seen.inserted_records,
        updated=seen.updated_records,
        unchanged=seen.unchanged_records,
        rejected=seen.error_records,
        superseded=seen.superseded_records,
        valid=0 if upsert else seen.successful_records - loaded,
        unprocessed=seen.unprocessed_records,
        load_seconds=None,
        seconds=total,
        rows_per_second=None,
        error=seen.failure_reason,
    )


@over_http(afterwards.errors, IMPORTS)
def errors(job_key: str, kind: str | None, to: str | None, as_source: bool, after_line: int, limit: int) -> None:
    if as_source or kind is not None or to is not None:
        output.refuse_json("a download")
    with connected() as client:
        if as_source:
            written(client.imports.download_records(job_key, "failed"), to)
        elif kind is not None or to is not None:
            written(client.imports.download_errors(job_key, kind or "csv"), to)
        else:
            behind = (each for each in client.imports.errors(job_key) if each.line > after_line)
            found = list(islice(behind, limit + 1))
            lines = [f"line {each.line}: {why(each.reasons)}" for each in found[:limit]]
            if len(found) > limit:
                lines.append(f"… the next ones: bulk import errors {job_key} --after-line {found[limit - 1].line}")
            shown = [RejectShown(each.line, each.reasons, None) for each in found[:limit]]
            more = len(found) > limit
            output.show(RejectsShown(job_key, shown, None, more), "\n".join(lines) or "no record was rejected")


@over_http(afterwards.records, IMPORTS)
def records(job_key: str, outcome: str, to: str | None, number: int | None) -> None:
    with connected() as client:
        written(client.imports.download_records(job_key, outcome, number), to)


@over_http(afterwards.replay, IMPORTS)
def replay(job_key: str, source: str | None, idempotency_key: str | None) -> None:
    from bulk_pipelines.remote import watching

    with connected() as client, watching.screen() as screen:
        if source is not None and "://" in source:
            raise InvalidInput(
                "--from", "mended records must be in a file of this machine, which is sent to the server"
            )
        seen = client.imports.replay(job_key, source, idempotency_key=idempotency_key, on_sent=screen.sent)
        output.note(f"import {seen.job_id} of the records that {job_key} rejected")
        seen = watched(client, screen, seen)
    ended(seen)


@over_http(afterwards.undo, IMPORTS)
def undo(job_key: str, yes: bool) -> None:
    with connected() as client:
        found = client.imports.undo(job_key, dry_run=True)
        output.note(
            f"{counted(found.removed, 'row')} of {job_key} can be taken back; "
            f"{counted(found.changed, 'was', 'were')} changed since and {counted(found.referred_to, 'is', 'are')} "
            "referred to: those stay"
        )
        if found.removed and not yes:
            output.confirm("Take them back?")
        removed = client.imports.undo(job_key).removed if found.removed else 0
        shown = UndoShown(job_key, found.removed, found.changed, found.referred_to, removed)
        output.show(shown, f"{counted(removed, 'row')} taken back" if found.removed else "")


COMMANDS["import"] = group_of(imports.group, IMPORTS)
