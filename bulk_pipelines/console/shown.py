"""How values are shown to people. Records are hostile text: what a page shows of them is escaped by the templates, and
characters that nobody can see, or that turn the text around, are made visible here."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState, JobState

LONGEST_CELL = 300
NOTHING = "\N{EN DASH}"
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Characters that nobody can see, and those that change the direction of what follows."""

JOB_WORDS = {
    JobState.SUBMITTED: ("waiting", "quiet"),
    JobState.RUNNING: ("running", "live"),
    JobState.PAUSED: ("paused", "warn"),
    JobState.COMPLETED: ("completed", "good"),
    JobState.COMPLETED_WITH_ERRORS: ("completed with errors", "warn"),
    JobState.FAILED: ("failed", "bad"),
    JobState.CANCELLED: ("cancelled", "quiet"),
}
"""The word for each state of a job, and the tone of its colour. Nothing is said by the colour alone."""

ITEM_WORDS = {
    ItemState.PENDING: ("pending", "quiet"),
    ItemState.RUNNING: ("processing", "live"),
    ItemState.SUCCEEDED: ("done", "good"),
    ItemState.NOT_FOUND: ("not found", "warn"),
    ItemState.SKIPPED: ("skipped", "quiet"),
    ItemState.RETRY_WAIT: ("waiting to retry", "warn"),
    ItemState.DLQ: ("error", "bad"),
    ItemState.CANCELLED: ("cancelled", "quiet"),
}


ORIGINS = {"api": "the API or the console", "cli": "the command line", "sensor": "a drop", "ui": "Dagster's UI"}


def took(job: Job) -> float | None:
    """Return the seconds from the start of a job to its end; None if it lacks one of them."""
    return (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else None


def host(worker: str) -> str:
    """Return the host of a worker, whose name may begin with the run that it belongs to."""
    parts = worker.split(":")
    return plain(parts[-3] if len(parts) >= 3 else worker, 60)


def number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 or value == int(value) else f"{value:,.1f}"


def several(count: int, thing: str) -> str:
    """Return a number with the word for the things, which is in the singular for one."""
    return f"{number(count)} {thing}{'' if count == 1 else 's'}"


def said(value: object) -> str:
    """Return the value of a parameter."""
    if isinstance(value, list):
        return ", ".join(plain(each) for each in value)
    return "yes" if value is True else plain(value)


def size(count: int | None) -> str:
    """Return a number of bytes as people say it."""
    if count is None:
        return NOTHING
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007 - the unit is read behind the loop
        if value < 1_000:
            break
        value /= 1_000
    return f"{value:,.0f} {unit}" if value >= 10 or unit == "B" else f"{value:,.1f} {unit}"


def span(seconds: float | None) -> str:
    """Return a length of time as people say it."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return "under a second"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3_600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds // 3_600:.0f} h {seconds % 3_600 // 60:.0f} min"
    return f"{seconds / 86_400:.0f} days"


def when(moment: datetime | None) -> Markup:
    """Return a time in UTC, in a form that the page's script can read. It shows the time in the browser's own zone."""
    if moment is None:
        return escape(NOTHING)
    utc = moment.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S}", f"{utc:%Y-%m-%d %H:%M}"
    )


def plain(value: object, most: int = LONGEST_CELL) -> str:
    """Return hostile text as it can be shown: at most so many characters, and the unseen ones by their numbers."""
    text = value if isinstance(value, str) else "" if value is None else compact(value)
    cut = text[: most + 1]
    cut = cut if len(cut) <= most else cut[:most] + "…"
    return UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", cut).encode("utf-8", "replace").decode()


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def pretty(value: object) -> str:
    """Return a JSON value on several lines."""
    return plain(json.dumps(value, ensure_ascii=False, indent=2, default=str), 50_000)


def kind(name: str) -> str:
    """Return the name of a kind of job as people say it."""
    for prefix, said in (("import_", "import"), ("export_", "export"), ("process_", "process")):
        if name.startswith(prefix):
            return f"{said} {name.removeprefix(prefix)}"
    return name


def job_state(state: str) -> Markup:
    return chip(*JOB_WORDS[JobState(state)])


def item_state(state: str) -> Markup:
    return chip(*ITEM_WORDS[ItemState(state)])


def chip(word: str, tone: str) -> Markup:
    return Markup('<span class="chip {}">{}</span>').format(tone, word)


def asked(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parameters of a request that have a value, without those that may hold a secret or say nothing to
    people."""
    hidden = {"source", "query", "to", "within", "files", "recipe", "file_count", "size"}
    rows = [(name, value) for name, value in params.items() if name not in hidden and value not in (None, "", [], {})]
    found = [(name.replace("_", " "), said(value)) for name, value in rows if value is not False]
    if isinstance(params.get("recipe"), Mapping):
        found.insert(0, ("recipe", plain(params["recipe"].get("name"))))
    return found
