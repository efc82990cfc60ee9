"""`bulk api`: the API and the console in one process. What the command needs is imported when it runs."""

import click

from bulk_pipelines import settings


@click.command()
def api() -> None:
    """Serve the console and the HTTP API (BULK_API_PORT), until Ctrl-C."""
    from bulk_pipelines.api.serving import serving
    from bulk_pipelines.console import application

    serving.run(settings.current(), click.echo, application.install)
