"""Where people reach the pages of an installation, as its settings have it."""

from bulk_pipelines.settings import Settings


def console(chosen: Settings) -> str:
    """Return the address of the console, without a slash at its end."""
    return chosen.console_url.rstrip("/") or f"http://127.0.0.1:{chosen.api_port}"


def dagster(chosen: Settings) -> str:
    """Return the address of Dagster's UI, without a slash at its end."""
    return chosen.ui_url.rstrip("/") or f"http://127.0.0.1:{chosen.ui_port}"
