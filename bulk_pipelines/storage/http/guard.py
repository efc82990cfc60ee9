"""Connections that only lead to public web servers, and only last for a limited time.

A name is resolved once for a connection. All its addresses are judged, and the connection goes to one of them, so a
name that points somewhere else a moment later gains nothing. TLS and the Host header still use the name.
"""

import socket
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from ssl import SSLContext
from typing import Any

import httpcore

from bulk_pipelines.errors import Transient
from bulk_pipelines.storage.errors import OverLimit, UnsafePath

IPAddress = IPv4Address | IPv6Address
Resolve = Callable[[str, int], list[str]]

# Ranges of IPv6 addresses that stand for an IPv4 address, and the position of its lowest bit in them.
EMBEDDING = [
    (IPv6Network("::/96"), 0),
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
]


def is_public(address: IPAddress) -> bool:
    """Whether the address belongs to the open internet, in whatever form of IPv6 it is written."""
    if isinstance(address, IPv6Address):
        if address.is_site_local or address in IPv6Network("2001::/32") or address in IPv6Network("64:ff9b:1::/48"):
            return False
        for network, shift in EMBEDDING:
            if address in network:
                return is_public(IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def system_resolve(host: str, port: int) -> list[str]:
    """Return the addresses that the system finds for a name."""
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


def permitted(host: str, port: int, allowed: Callable[[IPAddress], bool], resolve: Resolve) -> list[str]:
    """Return the addresses of a host. Raise `UnsafePath` unless every one of them may be called."""
    try:
        found = resolve(host, port)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a name"
        raise Transient(f"the web server {host} cannot be found ({reason})") from None
    for text in found:
        if not allowed(ip_address(text)):
            raise UnsafePath("url", f"{host} is not a public web server ({text}), see BULK_ALLOW_PRIVATE_HTTP")
    return found


class Deadline:
    """The time limit of a whole download."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self.end = clock() + seconds

    def within(self, seconds: float | None) -> float:
        """Return the time limit for one step: `seconds`, or the time that is left for the whole download if that is
        less."""
        self.check()
        left = self.end - self.clock()
        return left if seconds is None else min(seconds, left)

    def check(self) -> None:
        if self.clock() >= self.end:
            raise OverLimit("url", f"the download takes longer than {self.seconds:g} s, see BULK_HTTP_SECONDS")


class GuardedNetwork(httpcore.NetworkBackend):
    def __init__(self, allowed: Callable[[IPAddress], bool], deadline: Deadline, resolve: Resolve) -> None:
        self.allowed = allowed
        self.deadline = deadline
        self.resolve = resolve
        self.network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in permitted(host, port, self.allowed, self.resolve):
            try:
                stream = self.network.connect_tcp(
                    address, port, self.deadline.within(timeout), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return TimedStream(stream, self.deadline)
        raise failure


class TimedStream(httpcore.NetworkStream):
    """A stream of which no step lasts beyond the deadline, however slowly the bytes trickle."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self.stream = stream
        self.deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self.stream.read(max_bytes, self.deadline.within(timeout))
        except httpcore.ReadTimeout:
            self.deadline.check()
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, self.deadline.within(timeout))

    def close(self) -> None:
        self.stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return TimedStream(
            self.stream.start_tls(ssl_context, server_hostname, self.deadline.within(timeout)), self.deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)
