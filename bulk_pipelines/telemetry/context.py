"""What the present work belongs to: a job, a request, a trace. Whoever begins work says so once; every line that is
logged meanwhile, and every call of others, bears it."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, fields, replace
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Work:
    """What is known of the present work; what is None is not known, or there is none."""

    job_id: str | None = None
    """The key of the job."""
    kind: str | None = None
    request_id: str | None = None
    trace_parent: str | None = None
    """The W3C trace context that the work stands in."""
    told: bool = False
    """Whether the trace context is a span of our own, which is sent to whoever collects traces."""
    run_id: str | None = None
    """The run of Dagster."""
    step: str | None = None
    worker: str | None = None
    item_key: str | None = None
    """The one item that is worked."""

    @property
    def trace_id(self) -> str | None:
        return None if self.trace_parent is None else self.trace_parent.split("-")[1]

    def shown(self) -> dict[str, str]:
        """Return what a line of the log says of it."""
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in UNSHOWN}
        return {name: value for name, value in (named | {"trace_id": self.trace_id}).items() if value is not None}


UNSHOWN = {"trace_parent", "told"}
NOTHING = Work()
PRESENT: ContextVar[Work] = ContextVar("bulk_pipelines_work", default=NOTHING)


def present() -> Work:
    return PRESENT.get()


@contextmanager
def about(**facts: str | bool | None) -> Iterator[Work]:
    """Say of the work in the block what it belongs to, besides what is known already."""
    if "trace_parent" in facts:
        facts.setdefault("told", False)
    known = PRESENT.get()
    # Most requests begin with nothing known. To copy that costs more than to make it.
    work = Work(**facts) if known is NOTHING else replace(known, **facts)  # type: ignore[arg-type]
    token = PRESENT.set(work)
    try:
        yield work
    finally:
        PRESENT.reset(token)


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function so that it runs in what is the present context now, whichever thread calls it."""
    context = copy_context()

    def run(*arguments: P.args, **options: P.kwargs) -> R:
        return context.copy().run(function, *arguments, **options)

    return run


def outgoing() -> str | None:
    """Return the trace context for a call that the present work makes: its span, or if nobody collects spans, one that
    only the other side knows."""
    present = PRESENT.get()
    parent = present.trace_parent
    if parent is None or present.told:
        return parent
    version, trace_id, _, flags = parent.split("-")
    return f"{version}-{trace_id}-{secrets.token_hex(8)}-{flags}"
