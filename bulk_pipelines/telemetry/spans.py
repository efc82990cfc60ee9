"""Traces by OpenTelemetry: from a request to its job, to the slices of its workers, and to the calls of others that
they make. Without `BULK_OTLP_ENDPOINT` nothing of OpenTelemetry is even imported.

The parent of a span is what the present work belongs to (`context`), so spans of one job come together from many
processes. A job's own span is known before it is over: its id follows from the job's key.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from bulk_pipelines import settings
from bulk_pipelines.telemetry import context

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanKind

log = logging.getLogger(__name__)

SERVICE = "bulk_pipelines"
FLUSH_SECONDS = 5
SCOPE = "bulk_pipelines"

IDENTITY: ContextVar[tuple[int, int] | None] = ContextVar("bulk_pipelines_span", default=None)
"""The trace and the id that the next span is to have; None leaves them to chance."""


@dataclass
class Open:
    """A span that is not over."""

    attributes: dict[str, Any] = field(default_factory=dict)
    wanted: bool = True

    def set(self, **attributes: Any) -> None:
        self.attributes.update(attributes)

    def drop(self) -> None:
        """Tell nobody of the span."""
        self.wanted = False


@cache
def provider() -> "TracerProvider | None":
    """Return what sends the spans of this process; None if nobody wants them."""
    endpoint = settings.current().otlp_endpoint
    if not endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415
    except ImportError:
        log.warning("BULK_OTLP_ENDPOINT is set, and there are no traces: pip install 'bulk-pipelines[otel]'")
        return None

    class Given(RandomIdGenerator):
        """Ids by chance, except where the next span's are known."""

        def generate_trace_id(self) -> int:
            known = IDENTITY.get()
            return super().generate_trace_id() if known is None else known[0]

        def generate_span_id(self) -> int:
            known = IDENTITY.get()
            return super().generate_span_id() if known is None else known[1]

    made = TracerProvider(resource=Resource.create({SERVICE_NAME: SERVICE}), id_generator=Given())
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=FLUSH_SECONDS)
    made.add_span_processor(BatchSpanProcessor(exporter))
    return made


@contextmanager
def span(name: str, kind: str = "internal", own: str | None = None, **attributes: Any) -> Iterator[Open]:
    """Tell of the block as a span of the present work. Work within the block belongs to the span. `own` is its trace
    context, where that is known before."""
    opened = Open(attributes)
    if provider() is None:
        yield opened
        return
    found = started(name, kind, context.present().trace_parent, own)
    try:
        with context.about(trace_parent=trace_parent(found), told=True):
            yield opened
    except BaseException as error:
        failed(found, error)
        raise
    finally:
        close(found, opened)


@contextmanager
def request(name: str, own: str, caller: str | None) -> Iterator[Open]:
    """Tell of the block as the answer to a request. `own` is the trace context that it has given itself, and `caller`
    what it came with."""
    opened = Open()
    if provider() is None:
        yield opened
        return
    found = started(name, "server", caller, own)
    try:
        yield opened
    finally:
        close(found, opened)


def over(name: str, own: str, parent: str | None, begun: datetime, ended: datetime, **attributes: Any) -> None:
    """Tell of something that is over already, whose trace context was known all the time."""
    if provider() is not None:
        found = started(name, "internal", parent, own, begun)
        close(found, Open(attributes), ended)


def started(name: str, kind: str, parent: str | None, own: str | None = None, begun: datetime | None = None) -> "Span":
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context  # noqa: PLC0415

    made = provider()
    assert made is not None, "asked before"
    above = None if parent is None else set_span_in_context(NonRecordingSpan(parsed(parent)))
    token = IDENTITY.set(None if own is None else (parsed(own).trace_id, parsed(own).span_id))
    try:
        from opentelemetry.context import Context  # noqa: PLC0415

        return made.get_tracer(SCOPE).start_span(
            name, above or Context(), kind_of(kind), start_time=None if begun is None else nanoseconds(begun)
        )
    finally:
        IDENTITY.reset(token)


def close(found: "Span", opened: Open, ended: datetime | None = None) -> None:
    if not opened.wanted:
        return  # a span that is never ended is never sent
    shown = {**context.present().shown(), **opened.attributes}
    found.set_attributes({f"bulk.{name}": value for name, value in shown.items() if value is not None})
    found.end(None if ended is None else nanoseconds(ended))


def failed(found: "Span", error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    found.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"[:500]))


def parsed(trace_parent: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415

    _, trace_id, span_id, flags = trace_parent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16) & 1))


def trace_parent(found: "Span") -> str:
    known = found.get_span_context()
    return f"00-{known.trace_id:032x}-{known.span_id:016x}-{int(known.trace_flags):02x}"


def kind_of(name: str) -> "SpanKind":
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    return SpanKind[name.upper()]


def nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000


def flush() -> None:
    """Send what was told so far. Processes that end without ceremony call this before."""
    made = provider()
    if made is not None:
        made.force_flush(FLUSH_SECONDS * 1000)
