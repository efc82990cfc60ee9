"""What programs write while they run: keeping log files short, and finding the line that says what went wrong."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from bulk_pipelines.database.folders import owner_only

LONGEST = 10_000_000

FATAL = re.compile(r"\b(FATAL|PANIC|[Ee]rror):")
TRACEBACK = "Traceback (most recent call last):"


def shorten(log: Path) -> None:
    """Put a long log aside as the only older one, and let the log begin anew.

    Its writers keep the file open to append to it, so it is copied and emptied instead of renamed.
    """
    if not log.exists() or log.stat().st_size <= LONGEST:
        return
    with log.open("rb+") as grown:
        with suppress(OSError), open(log.with_suffix(".log.old"), "wb", opener=owner_only) as old:  # a disk may be full
            shutil.copyfileobj(grown, old)
        grown.truncate(0)


def end_of(log: Path) -> str:
    """Return the last lines of a log."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-40:])


def error_in(text: str) -> str:
    """Return the line of a failed program's output that says what went wrong. That is the exception of its last
    traceback, below which explanations may follow; else the last line that speaks of an error; else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if TRACEBACK in text:
        begins = max(number for number, line in enumerate(lines) if line.strip() == TRACEBACK)
        lines = [line for line in lines[begins + 1 :] if not line[0].isspace()][:1] or lines
    spoken = [line for line in lines if FATAL.search(line)]
    return (spoken or lines or [""])[-1].strip()
