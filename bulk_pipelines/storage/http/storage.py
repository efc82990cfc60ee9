"""Reading files of web servers, with limits on where they may lie and how long a download takes (see `guard`).

httpcore, the transport of httpx, is used without httpx's client, so no cookies, proxies or credentials of the
environment take part. Redirects are followed here, up to a limit, and each is judged like the first address.
"""

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpcore
import httpx

from bulk_pipelines.errors import Failure, Permanent, Throttled, Transient
from bulk_pipelines.storage import tls
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.addresses import Address, redacted
from bulk_pipelines.storage.contract import Entry, Reader, Source
from bulk_pipelines.storage.errors import Missing, OverLimit, Refused, UnsafePath
from bulk_pipelines.storage.http.fields import moment, retry_after
from bulk_pipelines.storage.http.guard import Deadline, GuardedNetwork, IPAddress, Resolve, is_public, system_resolve

TIMEOUTS = {"connect": 10.0, "read": 30.0, "write": 30.0, "pool": 10.0}
REDIRECTS = {301, 302, 303, 307, 308}
ENCODINGS = {"", "identity", "gzip", "x-gzip", "zstd"}
"""The content encodings that are taken. Landing unpacks them as it does compressed files."""
UNKNOWN_SIZE = -1


class HttpSource(Source):
    def __init__(
        self,
        address: Address,
        access: Access,
        allowed: Callable[[IPAddress], bool] | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        """Prepare to read files of the address's server. `allowed`, if it is given, judges addresses instead of the
        setting."""
        self.address = address
        self.server = replace(address, user=None).server
        self.limits = access.http
        self.ca_file = access.ca_file
        self.allowed = allowed or (anywhere if access.http.allow_private else is_public)
        self.resolve = resolve

    def url_of(self, key: str) -> str:
        return redacted(f"{self.server}/{key}")

    def stat(self, key: str) -> Entry:
        with self.open(key) as reader:  # some servers answer a HEAD otherwise than a GET
            return reader.entry

    @contextmanager
    def open(self, key: str) -> Iterator[Reader]:
        shown = self.url_of(key)
        network = GuardedNetwork(self.allowed, Deadline(self.limits.seconds), self.resolve)
        with (
            failures(shown),
            httpcore.ConnectionPool(tls.context(self.ca_file), network_backend=network) as pool,
            self.answer(pool, key) as response,
        ):
            fields = httpx.Headers(response.headers)
            if response.status != 200:
                raise refusal(response.status, fields, shown, bool(self.address.password))
            if fields.get("Content-Encoding", "").lower() not in ENCODINGS:
                raise Permanent(
                    f"{shown} comes in the encoding {fields['Content-Encoding']!r}, which is not known here"
                )
            yield Reader(entry_of(key, fields), response.iter_stream())

    @contextmanager
    def answer(self, pool: httpcore.ConnectionPool, key: str) -> Iterator[httpcore.Response]:
        """Request the file, follow redirects, and yield the last answer."""
        shown = self.url_of(key)
        url = first = parsed(f"{self.server}/{key}", shown)
        for _ in range(self.limits.redirects + 1):
            with pool.stream(
                "GET", raw(url), headers=self.headers(url, first), extensions={"timeout": TIMEOUTS}
            ) as response:
                to = httpx.Headers(response.headers).get("Location")
                if response.status not in REDIRECTS or to is None:
                    yield response
                    return
            target = url.join(parsed(to, shown))
            if target.scheme not in {"http", "https"} or (url.scheme == "https" and target.scheme == "http"):
                raise UnsafePath("url", f"{shown} leads from {url.scheme} to {target.scheme}")
            url = target
        raise OverLimit("url", f"{shown} leads through more than {self.limits.redirects} redirects")

    def headers(self, url: httpx.URL, first: httpx.URL) -> list[tuple[bytes, bytes]]:
        fields = [
            (b"Host", url.netloc),
            (b"User-Agent", b"bulk-pipelines"),
            (b"Accept", b"*/*"),
            (b"Accept-Encoding", b"identity"),
        ]
        if self.address.user and (url.scheme, url.netloc) == (first.scheme, first.netloc):
            login = f"{self.address.user}:{self.address.password or ''}".encode()
            fields.append((b"Authorization", b"Basic " + base64.b64encode(login)))
        return fields


def anywhere(_: IPAddress) -> bool:
    return True


def parsed(url: str, shown: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        raise UnsafePath("url", f"{shown} is, or leads to, an address that is not valid") from None


def raw(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def entry_of(key: str, fields: httpx.Headers) -> Entry:
    length = fields.get("Content-Length", "")
    modified = moment(fields.get("Last-Modified", ""))
    size = int(length) if re.fullmatch(r"\d{1,18}", length) else UNKNOWN_SIZE
    version = fields.get("ETag", "") or (f"{modified:%Y%m%d%H%M%S}-{size}" if modified else "")
    return Entry(key, size, modified, version)


def refusal(status: int, fields: httpx.Headers, shown: str, credentials: bool) -> Failure:
    """Return the error that an answer other than 200 means."""
    said = f"the web server answered {status} for {shown}"
    if status in {429, 503}:
        return Throttled(said, retry_after(fields))
    if status >= 500 or status in {408, 425}:
        return Transient(said, retry_after(fields))
    if status in {404, 410}:
        return Missing(f"{shown} does not exist (the web server answered {status})")
    if status in {401, 403, 407}:
        why = (
            "the credentials are wrong or may not do that"
            if credentials
            else "it needs credentials that were not given"
        )
        return Refused(f"{said}: {why}")
    return Permanent(said)


@contextmanager
def failures(shown: str) -> Iterator[None]:
    try:
        yield
    except httpcore.ConnectError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Refused(f"{shown}: the server's certificate is not trusted, see BULK_CA_FILE") from None
        raise Transient(f"{shown}: the web server cannot be reached") from None
    except httpcore.TimeoutException:
        raise Transient(f"{shown}: the web server does not answer in time") from None
    except httpcore.RemoteProtocolError:
        raise Transient(f"{shown}: the web server broke off, or does not speak HTTP") from None
    except (httpcore.NetworkError, httpcore.ProtocolError):
        raise Transient(f"{shown}: the connection to the web server broke") from None
