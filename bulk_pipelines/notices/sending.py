"""One notice is sent to one receiver, which is somebody else's server. Connections lead to public servers only
(`storage.http.guard`), nothing that a server does holds a worker for long, and no redirect is followed, because it
could lead into our own network."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpcore
import httpx

from bulk_pipelines.errors import BulkError, Permanent, Throttled, Transient
from bulk_pipelines.notices import signing
from bulk_pipelines.notices.request import Subscription
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import tls
from bulk_pipelines.storage.errors import UnsafePath
from bulk_pipelines.storage.http.fields import retry_after
from bulk_pipelines.storage.http.guard import Deadline, GuardedNetwork, is_public, system_resolve
from bulk_pipelines.telemetry import context

MOST_SECONDS = 15.0
"""How long a receiver may take in all."""
TIMEOUTS = {"connect": 5.0, "read": MOST_SECONDS, "write": MOST_SECONDS, "pool": MOST_SECONDS}
GONE = 410


class Late(Exception):
    """The receiver takes too long."""


class SendDeadline(Deadline):
    def check(self) -> None:
        if self.clock() >= self.end:
            raise Late


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return the body as it is signed and sent, the same for each try."""
    return json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def send(
    subscription: Subscription,
    notice_id: str,
    body: Mapping[str, Any],
    chosen: Settings,
    most_seconds: float = MOST_SECONDS,
) -> int:
    """Send a notice, and return the status of the answer. Raise a failure if it is not a success; its class says
    whether another try may do better."""
    data = encoded(body)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "bulk-pipelines",
        "Connection": "close",
        **signing.headers(subscription.secret, notice_id, int(time.time()), data),
    }
    if trace_parent := context.outgoing():
        headers["traceparent"] = trace_parent
    url = httpx.URL(subscription.address)
    headers["Host"] = url.netloc.decode()
    anywhere = subscription.private or chosen.allow_private_http
    network = GuardedNetwork((lambda _: True) if anywhere else is_public, SendDeadline(most_seconds), system_resolve)
    shown = subscription.shown
    with (
        failures(shown, most_seconds),
        httpcore.ConnectionPool(tls.context(chosen.ca_file), network_backend=network) as pool,
        pool.stream(
            "POST",
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=list(headers.items()),
            content=data,
            extensions={"timeout": TIMEOUTS},
        ) as response,
    ):
        return accepted(response.status, httpx.Headers(response.headers), shown)


@dataclass(frozen=True)
class Trial:
    """What came of a notice that was sent for a trial."""

    delivered: bool
    status: int | None
    """What the receiver answered, if that was a success."""
    message: str


def tried(subscription: Subscription, chosen: Settings) -> Trial:
    """Send a notice of the type `test` now, and say what came of it."""
    notice_id = f"evt_test_{secrets.token_hex(8)}"
    body = {
        "id": notice_id,
        "type": "test",
        "timestamp": datetime.now(UTC).isoformat(),
        "owner": subscription.owner,
        "data": {},
    }
    try:
        status = send(subscription, notice_id, body, chosen)
    except BulkError as error:
        return Trial(delivered=False, status=None, message=" ".join(str(error).split()))
    return Trial(delivered=True, status=status, message=f"answered {status}")


def accepted(status: int, fields: httpx.Headers, shown: str) -> int:
    said = f"{shown} answered {status}"
    if 200 <= status < 300:
        return status
    if 300 <= status < 400:
        raise Permanent(f"{said}: it leads elsewhere, which is not followed; subscribe with the new address")
    if status == GONE:
        raise Permanent(f"{said}: the receiver is gone")
    asked = retry_after(fields)
    if status == 429 or asked is not None:
        raise Throttled(said, asked)
    raise Transient(said)


@contextmanager
def failures(shown: str, most_seconds: float) -> Iterator[None]:
    try:
        yield
    except UnsafePath as error:
        raise Permanent(f"{error.message}; or subscribe with --private") from None
    except httpcore.ConnectError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Transient(f"the certificate of {shown} is not trusted, see BULK_CA_FILE") from None
        raise Transient(f"{shown} cannot be reached") from None
    except (httpcore.TimeoutException, Late):
        raise Transient(f"{shown} does not answer within {most_seconds:g} s") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise Transient(f"{shown} broke off its answer, or does not speak HTTP") from None
