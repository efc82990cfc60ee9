"""What the shell suggests for an argument: the newest jobs, resources, files and words. Whatever goes wrong, it
suggests nothing, because a person who presses the tabulator has not asked for an error."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from bulk_pipelines import settings

MOST = 50

Suggest = Callable[[click.Context, click.Parameter | None, str], list[CompletionItem]]


def quietly(suggest: Suggest) -> Suggest:
    def suggested(context: click.Context, parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
        try:
            return suggest(context, parameter, begun)
        except Exception:  # noqa: BLE001 - nobody has asked for an error
            return []

    return suggested


@quietly
def jobs(_context: click.Context, _parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
    """Suggest the newest jobs, each with its kind and state. A database that does not run is not started for that."""
    from bulk_pipelines.database import address, pool
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import listing

    url = address.running(settings.current())
    if url is None:
        return []
    engine = pool.connect(url, application="bulk cli", timeout=2)
    with transaction(engine) as connection:
        found = listing.page(connection, listing.Wanted(text=begun or None), MOST)
    return [
        CompletionItem(job.job_key, help=f"{job.kind} {job.status}") for job in found if job.job_key.startswith(begun)
    ]


@quietly
def resources(_context: click.Context, _parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
    from bulk_pipelines import resources

    return [CompletionItem(each.name) for each in resources.known() if each.name.startswith(begun)]


def files(_context: click.Context, _parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
    """Let the shell suggest files, as it does for other programs."""
    return [CompletionItem(begun, type="file")]


def words(*known: str) -> Suggest:
    def suggested(_context: click.Context, _parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in known if word.startswith(begun)]

    return suggested


modes = words("insert", "upsert")
