"""Calls of a provider. Each process has one client for each provider, whose connections are used again.

Nothing that a server sends can hold a worker or fill its memory: a request has a time limit as a whole, an answer a
size limit, and only JSON that PostgreSQL can keep is an answer. Connections lead to public servers only (see
`storage.http.guard`). No redirect is followed: no limit would count it, and it could carry secrets elsewhere.
"""

import json
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx

from bulk_pipelines import settings
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.rate_limit import Use
from bulk_pipelines.errors import InvalidInput, Permanent, Throttled, Transient
from bulk_pipelines.processing.providers.headers import of_every_request, of_this_request
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.storage import tls
from bulk_pipelines.storage.errors import Refused
from bulk_pipelines.storage.http.fields import retry_after
from bulk_pipelines.storage.http.guard import Deadline, GuardedNetwork, is_public, system_resolve

UNSAID_SECONDS = 5.0
"""How many seconds everybody waits after a refusal that names no time."""
SHOWN = 200


@dataclass(frozen=True)
class Request:
    """What is asked of a provider. The path is relative to the provider's address."""

    path: str = ""
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """JSON to send."""
    form: Mapping[str, str] | None = None
    """A form to send."""
    nothing: tuple[int, ...] = (404, 410)
    """The statuses that mean: there is nothing."""


@dataclass(frozen=True)
class Reply:
    """The provider's answer. Without a value there is nothing."""

    value: Any


class TooLong(Exception):
    """A request takes longer than it may."""


class AnswerDeadline(Deadline):
    """The time limit of one request with its answer."""

    def check(self) -> None:
        if self.clock() >= self.end:
            raise TooLong


class RequestDeadline(Deadline):
    """The deadline of the request that the present thread makes. A connection outlives its requests, so it asks for the
    deadline at each step."""

    def __init__(self) -> None:
        self.present = threading.local()

    @contextmanager
    def of(self, seconds: float) -> Iterator[Deadline]:
        self.present.deadline = AnswerDeadline(seconds)
        try:
            yield self.present.deadline
        finally:
            del self.present.deadline

    def within(self, seconds: float | None) -> float:
        deadline: Deadline | None = getattr(self.present, "deadline", None)
        if deadline is None:
            return 1.0 if seconds is None else min(seconds, 1.0)  # a connection is being closed
        return deadline.within(seconds)

    def check(self) -> None:
        deadline: Deadline | None = getattr(self.present, "deadline", None)
        if deadline is not None:
            deadline.check()


class GuardedTransport(httpx.BaseTransport):
    """httpcore's pool over guarded connections, as httpx wants it."""

    def __init__(self, network: httpcore.NetworkBackend, at_once: int, ca_file: str) -> None:
        self.pool = httpcore.ConnectionPool(
            tls.context(ca_file), max_connections=at_once, keepalive_expiry=30.0, http2=True, network_backend=network
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        answer = self.pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        self.pool.close()


class Body(httpx.SyncByteStream):
    """The bytes of an answer as they come."""

    def __init__(self, answer: httpcore.Response) -> None:
        self.answer = answer

    def __iter__(self) -> Iterator[bytes]:
        yield from self.answer.iter_stream()

    def close(self) -> None:
        self.answer.close()


class Client:
    """The connections to one provider. Threads share them."""

    def __init__(self, provider: Provider, chosen: settings.Settings) -> None:
        self.provider = provider
        self.deadline = RequestDeadline()
        anywhere = provider.private or chosen.allow_private_http
        allowed = (lambda _: True) if anywhere else is_public
        network = GuardedNetwork(allowed, self.deadline, system_resolve)
        self.http = httpx.Client(
            base_url=provider.address,
            headers=of_every_request(provider),
            transport=GuardedTransport(network, provider.at_once, chosen.ca_file),
            timeout=httpx.Timeout(provider.read_seconds, connect=provider.connect_seconds),
            trust_env=False,
        )

    def call(self, request: Request, use: Use) -> Reply:
        """Ask the provider. What it says of its limits goes to `use`."""
        provider = self.provider
        params = {**request.params, **({"maxlag": str(provider.maxlag)} if provider.maxlag else {})}
        with (
            failures(provider, use),
            self.deadline.of(provider.answer_seconds) as deadline,
            self.http.stream(
                request.method,
                request.path,
                params=params or None,
                headers={**of_this_request(), **request.headers},
                json=request.body,
                data=None if request.form is None else dict(request.form),
            ) as response,
        ):
            use.status = str(response.status_code)
            refuse(provider, response, request, use)
            if response.status_code in request.nothing:
                return Reply(None)
            data = whole(provider, response, deadline)
            return Reply(checked(provider, parsed(provider, data, response), response, use))

    def close(self) -> None:
        self.http.close()


def refuse(provider: Provider, response: httpx.Response, request: Request, use: Use) -> None:
    """Raise the failure that a status stands for, unless it is a success or means that there is nothing."""
    status = response.status_code
    if status < 300 or status in request.nothing:
        return
    said = f"{provider.name} answered {status}"
    asked = retry_after(response.headers)
    if status in provider.throttled or (status == 503 and asked is not None):
        raise throttled(said, asked, use)
    if 300 <= status < 400:
        raise Permanent(f"{said}: it leads elsewhere, which is not followed; declare its new address")
    if status >= 500 or status in {408, 425, 429}:
        raise Transient(said, asked)
    if status in {401, 403, 407}:
        raise Refused(f"{said}: the credentials, or the User-Agent and its contact, are not accepted")
    raise Permanent(said)


def throttled(said: str, asked: float | None, use: Use) -> Throttled:
    wait = UNSAID_SECONDS if asked is None else asked
    use.retry_after(wait)
    return Throttled(said, wait)


def whole(provider: Provider, response: httpx.Response, deadline: Deadline) -> bytes:
    """Read the answer within its limits of size and time. An answer that is packed is unpacked up to the limit only."""
    packing = response.headers.get("Content-Encoding", "identity").lower()
    if packing not in {"identity", "gzip"}:
        raise Transient(f"{provider.name} answers in the encoding {packing[:SHOWN]!r}, which was not asked for")
    unpacked = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing == "gzip" else None
    most, data, received = provider.answer_bytes, bytearray(), 0
    for piece in response.iter_raw(65_536):
        deadline.check()
        received += len(piece)
        if unpacked is not None and unpacked.eof:  # zlib would keep whatever comes behind the end
            raise Transient(f"{provider.name} answers with more behind the end of its answer")
        try:
            data += piece if unpacked is None else unpacked.decompress(piece, most + 1 - len(data))
        except zlib.error:
            raise Transient(f"{provider.name} broke off its answer: it cannot be unpacked") from None
        if max(len(data), received) > most:
            raise Transient(f"{provider.name} answers with more than {most:,} bytes")
    if unpacked is not None and not unpacked.eof:
        raise Transient(f"{provider.name} broke off its answer: it cannot be unpacked")
    return bytes(data)


def parsed(provider: Provider, data: bytes, response: httpx.Response) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        kind = response.headers.get("Content-Type", "nothing said")
        raise Transient(f"{provider.name} answered with something that is not JSON ({kind[:SHOWN]})") from None


def checked(provider: Provider, value: Any, response: httpx.Response, use: Use) -> Any:
    """Check that the answer can be kept, and that it is not a MediaWiki's refusal in the form of an answer."""
    error = value.get("error") if isinstance(value, dict) else None
    if provider.maxlag and isinstance(error, dict):
        code = str(error.get("code", ""))[:SHOWN]
        if code in {"maxlag", "ratelimited"}:
            raise throttled(f"{provider.name} answered {code}", retry_after(response.headers), use)
        raise Transient(f"{provider.name} answered with the error {code}: {str(error.get('info', ''))[:SHOWN]}")
    try:
        payload.encode("answer", {"value": value}, 2 * provider.answer_bytes)
    except InvalidInput as refused:
        raise Transient(f"{provider.name} answered with JSON that cannot be kept: {refused.message}") from None
    return value


@contextmanager
def failures(provider: Provider, use: Use) -> Iterator[None]:
    """Turn errors of the network into failures that the item's next try may not meet, and count what is the provider's
    own fault."""
    try:
        yield
    except httpcore.ConnectError as error:
        use.fail()
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Refused(f"the certificate of {provider.name} is not trusted, see BULK_CA_FILE") from None
        raise Transient(f"{provider.name} cannot be reached") from None
    except (httpcore.TimeoutException, httpx.TimeoutException, TooLong):
        use.fail()
        raise Transient(f"{provider.name} does not answer in time") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, httpx.StreamError):
        use.fail()
        raise Transient(f"{provider.name} broke off its answer, or does not speak HTTP") from None
    except (Transient, Refused) as error:
        if not isinstance(error, Throttled):
            use.fail()
        raise
