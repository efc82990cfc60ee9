"""Providers that are slow, lying, cut off or hostile cost their row a try, and nothing else."""

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme

from bulk_pipelines.engine.rate_limit import Use
from bulk_pipelines.errors import Permanent, Throttled, Transient
from bulk_pipelines.processing.providers.client import Client, Request
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.errors import Refused, UnsafePath
from bulk_pipelines_tests.servers.http2_server import Http2Server
from bulk_pipelines_tests.servers.provider_server import Handler, ProviderServer, Said


def provider(address: str, **given: Any) -> Provider:
    return Provider.parse(
        "shop", {"address": address, "private": True, "answer_seconds": 2, "answer_bytes": 100_000} | given
    )


def called(address: str, **given: Any) -> tuple[Any, Use]:
    client = Client(provider(address, **given), Settings())
    use = Use(1)
    try:
        return client.call(Request("x"), use), use
    finally:
        client.close()


def raw(*pieces: bytes, pause: float = 0.0) -> Callable[[Any], Any]:
    """Answer with these bytes, and nothing of HTTP besides."""

    def send(handler: Handler) -> None:
        for piece in pieces:
            handler.wfile.write(piece)
            handler.wfile.flush()
            handler.server.provider.stopping.wait(pause)
        handler.close_connection = True

    return lambda _: send


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(lambda _: Said(b"<html>", 200), "not JSON", id="html"),
        pytest.param(lambda _: Said(b""), "not JSON", id="nothing"),
        pytest.param(lambda _: Said(b"[" * 100_000), "not JSON", id="deep"),
        pytest.param(lambda _: Said(b"[" * 200 + b"]" * 200), "cannot be kept", id="rather deep"),
        pytest.param(lambda _: Said(b'"\\ud800"'), "cannot be kept", id="half a surrogate"),
        pytest.param(lambda _: Said(b'"\\u0000"'), "cannot be kept", id="NUL"),
        pytest.param(lambda _: Said(b"NaN"), "cannot be kept", id="NaN"),
        pytest.param(lambda _: Said(b"9" * 50_000), "not JSON", id="a number of 50,000 digits"),
        pytest.param(lambda _: Said(b'"' + b"x" * 200_000 + b'"'), "more than 100,000 bytes", id="large"),
        pytest.param(
            lambda _: Said(gzip.compress(b" " * 50_000_000), 200, {"Content-Encoding": "gzip"}),
            "more than 100,000 bytes",
            id="bomb",
        ),
        pytest.param(lambda _: Said(b"no gzip", 200, {"Content-Encoding": "gzip"}), "broke off", id="not packed"),
        pytest.param(
            raw(HEAD + b"Content-Length: 10000000000\r\n\r\n", *[b" " * 65_536] * 1_000),
            "more than 100,000 bytes",
            id="ten gigabytes",
        ),
        pytest.param(raw(HEAD + b"Content-Length: 100\r\n\r\n{"), "broke off", id="half a body"),
        pytest.param(raw(b"SSH-2.0\r\n"), "broke off", id="not HTTP"),
        pytest.param(raw(b""), "broke off", id="closed at once"),
        pytest.param(raw(HEAD, *[b"X: y\r\n"] * 40, pause=0.1), "in time", id="a header at a time"),
        pytest.param(
            raw(HEAD + b"Content-Length: 100\r\n\r\n", *[b" "] * 40, pause=0.1), "in time", id="a byte at a time"
        ),
        pytest.param(lambda _: Said({}, 500), "500", id="broken"),
    ],
)
def test_an_answer_that_is_none(answer: Any, why: str) -> None:
    begun = time.monotonic()
    with ProviderServer(answer) as server:
        client, use = Client(provider(server.url), Settings()), Use(1)
        with pytest.raises(Transient, match=why):
            client.call(Request("x"), use)
        client.close()
    assert use.failed
    assert time.monotonic() - begun < 20


def test_a_provider_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Transient, match="cannot be reached"):
        called(f"http://127.0.0.1:{port}/")


def test_throttling_says_how_long() -> None:
    with ProviderServer(lambda _: Said({}, 429, {"Retry-After": "7"})) as server:
        client, use = Client(provider(server.url), Settings()), Use(1)
        with pytest.raises(Throttled) as found:
            client.call(Request("x"), use)
        client.close()
    assert (found.value.retry_after, use.block, use.failed) == (7.0, 7.0, False)


def test_a_mediawiki_that_lags() -> None:
    lagging = {"error": {"code": "maxlag", "info": "Waiting", "lag": 6}}
    with ProviderServer(lambda _: Said(lagging, 200, {"Retry-After": "5"})) as server:
        client, use = Client(provider(server.url, maxlag=5), Settings()), Use(1)
        with pytest.raises(Throttled):
            client.call(Request("x"), use)
        client.close()
        assert server.calls[0].params["maxlag"] == "5"
    assert use.block == 5.0


def test_no_connection_leads_into_a_private_network() -> None:
    with ProviderServer(lambda _: {}) as server, pytest.raises(UnsafePath):
        called(server.url, private=False)
    assert not server.calls


def test_a_redirect_is_not_followed() -> None:
    with (
        ProviderServer(lambda _: {}) as inside,
        ProviderServer(lambda _: Said({}, 302, {"Location": inside.url})) as server,
    ):
        with pytest.raises(Permanent, match="leads elsewhere"):
            called(server.url)
        assert not inside.calls


def test_secrets_come_from_the_environment_and_stay_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hush")
    monkeypatch.setenv("BULK_DATABASE_URL", "postgresql://x:secret@y/z")
    with ProviderServer(lambda _: {"ok": 1}) as server:
        called(server.url, secret_headers={"Authorization": "Bearer {SHOP_TOKEN}"})
        assert server.calls[0].headers["Authorization"] == "Bearer hush"
        for variable in ("MISSING_TOKEN", "BULK_DATABASE_URL"):
            with pytest.raises(Refused, match=variable) as found:
                called(server.url, secret_headers={"Authorization": f"{{{variable}}}"})
            assert "secret" not in str(found.value)


def test_threads_share_connections_and_their_time_limits_stand_apart() -> None:
    def answer(call: Any) -> Any:
        if "slow" in call.path:
            threading.Event().wait(3)
        return {"path": call.path}

    with ProviderServer(answer) as server:
        client = Client(provider(server.url, at_once=4), Settings())
        failed: list[Exception] = []

        def slow() -> None:
            try:
                client.call(Request("slow"), Use(1))
            except Transient as error:
                failed.append(error)

        thread = threading.Thread(target=slow)
        thread.start()
        for number in range(30):
            assert client.call(Request(f"{number}"), Use(1)).value == {"path": f"/{number}"}
        thread.join()
        client.close()
    assert "in time" in str(failed[0])


def test_http_2_is_spoken_where_it_is_offered(tmp_path: Path) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    with Http2Server(tls) as server:
        client = Client(provider(server.url), Settings(ca_file=str(tmp_path / "authority.pem")))
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda number: client.call(Request(str(number)), Use(1)).value, range(12)))
        client.close()
    assert server.connections == ["h2"], "all requests share one connection"
    assert sorted(server.paths) == sorted(f"/{number}" for number in range(12))
    assert all(each["number"] for each in found)
