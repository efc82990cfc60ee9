"""What is told while work goes on. An event has a name, which never changes, and fields; whoever reads JSON goes by
them. What it belongs to (`context`) is added where lines are written."""

import logging
from typing import Any

log = logging.getLogger("bulk_pipelines.events")
"""Dagster shows what comes here in the log of the run."""
details = logging.getLogger("bulk_pipelines.details")
"""What is only told when somebody wants every detail."""

FIELDS = "bulk_fields"
"""The attribute of a record that holds the fields of its event."""
NAME = "bulk_event"


def told(level: int) -> bool:
    """Whether anybody hears events of this level. Asking is cheap; making their fields may not be."""
    return logger_of(level).isEnabledFor(level)


def logger_of(level: int) -> logging.Logger:
    return details if level < logging.INFO else log


def debug(event: str, **values: Any) -> None:
    tell(logging.DEBUG, event, values)


def info(event: str, **values: Any) -> None:
    tell(logging.INFO, event, values)


def warning(event: str, **values: Any) -> None:
    tell(logging.WARNING, event, values)


def error(event: str, **values: Any) -> None:
    tell(logging.ERROR, event, values)


def tell(level: int, event: str, values: dict[str, Any]) -> None:
    logger = logger_of(level)
    if logger.isEnabledFor(level):
        given = {name: value for name, value in values.items() if value is not None}
        # The text has the fields as well: whoever knows nothing of them, such as Dagster's run log, shows the text.
        text = " ".join([event, *(f"{name}={value}" for name, value in given.items())])
        logger.log(level, "%s", text, extra={NAME: event, FIELDS: given})
