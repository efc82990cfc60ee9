"""Setting up what becomes of log lines: JSON for programs (`BULK_LOG=json`), or a form for people. Every process of the
program calls `set_up` once, and nothing else configures logging."""

import logging
import sys
from functools import cached_property
from typing import Any

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines.telemetry import context, events

ROOM = "bulk_pipelines"
JSON = "json"
TEXT = "text"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Lines(logging.Formatter):
    """Writes each record as one line, with what the work belongs to. structlog is imported with the first line, because
    most commands never write one."""

    def __init__(self, form: str, colors: bool) -> None:
        super().__init__()
        self.form = form
        self.colors = colors

    @cached_property
    def formatter(self) -> logging.Formatter:
        import structlog  # noqa: PLC0415 - most commands never write a line
        from structlog.dev import ConsoleRenderer, plain_traceback  # noqa: PLC0415
        from structlog.processors import JSONRenderer, TimeStamper, dict_tracebacks  # noqa: PLC0415
        from structlog.stdlib import ProcessorFormatter, add_log_level  # noqa: PLC0415

        last: list[Any] = (
            [dict_tracebacks, JSONRenderer(default=str)]
            if self.form == JSON
            else [ConsoleRenderer(colors=self.colors, exception_formatter=plain_traceback)]
        )
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[add_log_level, TimeStamper(fmt="iso", utc=True), with_event, with_work],
            processors=[ProcessorFormatter.remove_processors_meta, *last],
        )

    def format(self, record: logging.LogRecord) -> str:
        return self.formatter.format(record)


def with_event(_: Any, __: str, line: Any) -> Any:
    """Put the fields of an event in place of the text that has them for others."""
    record = line.get("_record")
    fields = getattr(record, events.FIELDS, None)
    line["logger"] = getattr(record, "name", ROOM)
    if fields is not None:
        line["event"] = getattr(record, events.NAME)
        line.update({name: value for name, value in fields.items() if name not in line})
    return line


def with_work(_: Any, __: str, line: Any) -> Any:
    for name, value in context.present().shown().items():
        line.setdefault(name, value)
    return line


class Stderr(logging.Handler):
    """Writes to what stderr is at the moment, because Dagster and tests exchange it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a line that cannot be written stops nobody
            self.handleError(record)


def set_up(chosen: Settings, least: str | None = None) -> None:
    """Write the program's log lines to stderr from now on. `least` is the level where the setting names none."""
    form = checked(chosen.log, "BULK_LOG", (TEXT, JSON))
    level = checked(chosen.log_level or least or "info", "BULK_LOG_LEVEL", tuple(LEVELS))
    handler = Stderr()
    handler.setFormatter(Lines(form, colors=sys.stderr.isatty()))
    ours = logging.getLogger(ROOM)
    for each in [each for each in ours.handlers if isinstance(each, Stderr)]:
        ours.removeHandler(each)
    ours.addHandler(handler)
    ours.setLevel(LEVELS[level])


def checked(value: str, variable: str, known: tuple[str, ...]) -> str:
    if value.lower() not in known:
        raise InvalidInput(variable, f"{value!r} is none of {', '.join(known)}")
    return value.lower()
