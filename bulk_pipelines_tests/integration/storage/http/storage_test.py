"""HTTP sources: what they read, and everything they refuse; on a real web server."""

import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
import trustme

from bulk_pipelines.errors import Failure, InvalidInput, Permanent, Throttled, Transient
from bulk_pipelines.storage import addresses, locations
from bulk_pipelines.storage.access import Access, HttpAccess
from bulk_pipelines.storage.errors import Missing, OverLimit, Refused, UnsafePath
from bulk_pipelines.storage.http.guard import IPAddress
from bulk_pipelines.storage.http.storage import HttpSource
from bulk_pipelines_tests.servers import web_server
from bulk_pipelines_tests.servers.web_server import WebServer

ANYWHERE = Access(http=HttpAccess(allow_private=True))


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


def read(url: str, access: Access = ANYWHERE) -> bytes:
    source, key = locations.source(url, access)
    with source.open(key) as reader:
        return b"".join(reader)


def test_a_file_is_read_with_what_is_known_of_it(server: WebServer) -> None:
    data = bytes(range(256)) * 5000
    server.routes["/a/file.csv?part=1&x=%20"] = web_server.content(
        data, ETag='"v1"', Last_Modified="Wed, 01 Jan 2025 12:00:00 GMT"
    )
    source, key = locations.source(f"{server.url}/a/file.csv?part=1&x=%20", ANYWHERE)
    with source.open(key) as reader:
        assert b"".join(reader) == data
        assert (reader.entry.size, reader.entry.version) == (len(data), '"v1"')
        assert reader.entry.modified is not None
        assert reader.entry.modified.isoformat() == "2025-01-01T12:00:00+00:00"
    assert source.stat(key) == reader.entry
    assert source.url_of(key) == f"{server.url}/a/file.csv"


def test_without_a_length(server: WebServer) -> None:
    server.routes["/file"] = web_server.chunked(b"12345" * 1000)
    assert read(f"{server.url}/file") == b"12345" * 1000


def test_an_answer_that_ends_too_early(server: WebServer) -> None:
    server.routes["/file"] = web_server.broken(b"12345", 10)
    with pytest.raises(Transient, match="broke off"):
        read(f"{server.url}/file")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, Missing),
        (410, Missing),
        (401, Refused),
        (403, Refused),
        (400, Permanent),
        (500, Transient),
        (304, Permanent),
    ],
)
def test_refusals(server: WebServer, code: int, kind: type[Failure]) -> None:
    server.routes["/file"] = web_server.status(code)
    with pytest.raises(kind, match=f"/file.*{code}|{code}.*/file"):
        read(f"{server.url}/file")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "Wed, 01 Jan 2025 12:00:30 GMT", "Date": "Wed, 01 Jan 2025 12:00:00 GMT"}, 30.0),
        ({}, None),
        ({"Retry_After": "soon"}, None),
    ],
)
def test_how_long_to_wait(server: WebServer, headers: dict[str, str], seconds: float | None) -> None:
    def answer(handler: web_server.Handler) -> None:
        handler.send_response_only(503)
        for name, value in {"Content_Length": "0", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    server.routes["/file"] = answer
    with pytest.raises(Throttled) as caught:
        read(f"{server.url}/file")
    assert caught.value.retry_after == seconds


def test_redirects_are_followed(server: WebServer) -> None:
    server.routes["/a"] = web_server.redirect("/b/c", 301)
    server.routes["/b/c"] = web_server.redirect("../d?x=1", 307)
    server.routes["/d?x=1"] = web_server.content(b"here")
    assert read(f"{server.url}/a") == b"here"


def test_too_many_redirects(server: WebServer) -> None:
    server.routes["/a"] = web_server.redirect("/a")
    with pytest.raises(OverLimit, match="redirects"):
        read(f"{server.url}/a")
    assert len(server.requests) == 6


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1:70/x"])
def test_redirects_to_elsewhere_than_the_web(server: WebServer, to: str) -> None:
    server.routes["/a"] = web_server.redirect(to)
    with pytest.raises(UnsafePath, match="leads from http to"):
        read(f"{server.url}/a")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/x",
        "http://localhost:{port}/x",
        "http://127.1:{port}/x",
        "http://2130706433:{port}/x",
        "http://0x7f000001:{port}/x",
        "http://0.0.0.0:{port}/x",
        "http://[::1]:{port}/x",
        "http://[::ffff:127.0.0.1]:{port}/x",
        "http://10.1.2.3/x",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/x",
    ],
)
def test_private_addresses_are_refused(server: WebServer, url: str) -> None:
    with pytest.raises((UnsafePath, InvalidInput), match="not a public web server|not a valid address"):
        read(url.format(port=server.port), Access())
    assert server.requests == []


def only(*texts: str) -> Callable[[IPAddress], bool]:
    """Stands for the public internet in tests that have to be served from this machine."""
    return lambda address: address in {ip_address(text) for text in texts}


def test_a_redirect_to_a_private_address_is_refused(server: WebServer) -> None:
    """127.0.0.1 stands for a public server, 127.0.0.2 for one in the private network."""
    with WebServer(host="127.0.0.2") as private:
        private.routes["/secret"] = web_server.content(b"secret")
        server.routes["/a"] = web_server.redirect(f"http://127.0.0.2:{private.port}/secret")
        source = HttpSource(addresses.parse(f"{server.url}/a"), Access(), allowed=only("127.0.0.1"))
        with pytest.raises(UnsafePath, match=r"127\.0\.0\.2"), source.open("a"):
            pass
        assert len(server.requests) == 1
        assert private.requests == []


def test_the_address_that_was_judged_is_the_one_that_is_called(server: WebServer) -> None:
    """The name leads to a permitted address the first time it is asked for, and to another one ever after."""
    with WebServer(host="127.0.0.2") as private:
        answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"]])
        asked: list[str] = []

        def resolve(host: str, port: int) -> list[str]:
            asked.append(host)
            return next(answers)

        server.routes["/a"] = web_server.content(b"public")
        address = addresses.parse(f"http://rebinding.example:{server.port}/a")
        source = HttpSource(address, Access(), allowed=only("127.0.0.1"), resolve=resolve)
        with source.open("a") as reader:
            assert b"".join(reader) == b"public"
        assert asked == ["rebinding.example"]
        assert server.requests[0][1]["Host"] == f"rebinding.example:{server.port}"
        with pytest.raises(UnsafePath), source.open("a"):
            pass
        assert private.requests == []


def test_one_private_address_among_public_ones_is_enough_to_refuse(server: WebServer) -> None:
    address = addresses.parse(f"http://mixed.example:{server.port}/a")
    source = HttpSource(
        address, Access(), allowed=only("127.0.0.1"), resolve=lambda host, port: ["127.0.0.1", "10.0.0.1"]
    )
    with pytest.raises(UnsafePath, match=r"10\.0\.0\.1"), source.open("a"):
        pass
    assert server.requests == []


def test_credentials_stay_with_their_server(server: WebServer) -> None:
    with WebServer() as other:
        other.routes["/b"] = web_server.content(b"data")
        server.routes["/a"] = web_server.redirect("/here")
        server.routes["/here"] = web_server.redirect(f"{other.url}/b")
        read(f"{server.url.replace('//', '//someone:s3cret@')}/a")
        assert [headers.get("Authorization") for _, headers in server.requests] == ["Basic c29tZW9uZTpzM2NyZXQ="] * 2
        assert "Authorization" not in other.requests[0][1]


def test_no_message_shows_a_secret(server: WebServer) -> None:
    server.routes["/a?token=s3cret"] = web_server.status(403)
    with pytest.raises(Refused) as caught:
        read(f"{server.url.replace('//', '//someone:s3cret@')}/a?token=s3cret")
    assert "s3cret" not in str(caught.value)
    assert "credentials are wrong" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        web_server.trickle(b"HTTP/1.1 200 OK\r\n\r\n", b"x", 0.05),
        web_server.trickle(b"HTTP/1.1 200 OK\r\nX-", b"x", 0.05),
        web_server.trickle(b"", b"", 10),
        web_server.endless(b"x" * 1000),
    ],
    ids=["slow body", "slow header", "silence", "endless body"],
)
def test_a_download_ends_in_time(server: WebServer, answer: web_server.Answer) -> None:
    server.routes["/a"] = answer
    access = replace(ANYWHERE, http=replace(ANYWHERE.http, seconds=0.5))
    began = time.monotonic()
    with pytest.raises(OverLimit, match="longer than 0.5 s"):
        read(f"{server.url}/a", access)
    assert time.monotonic() - began < 5


def test_encodings_nobody_asked_for(server: WebServer) -> None:
    server.routes["/a"] = web_server.content(b"x", Content_Encoding="br")
    with pytest.raises(Permanent, match="br"):
        read(f"{server.url}/a")


def test_nobody_there() -> None:
    with WebServer() as server:
        url = server.url
    with pytest.raises(Transient, match="cannot be reached"):
        read(f"{url}/a")
    with pytest.raises(Transient, match="cannot be found"):
        read("http://no-such-host.invalid/a")


def test_what_speaks_no_http(server: WebServer) -> None:
    server.routes["/a"] = web_server.trickle(b"SSH-2.0-OpenSSH_9\r\n\r\n", b"", 10)
    with pytest.raises(Transient, match="does not speak HTTP"):
        read(f"{server.url}/a")


def test_https_by_trusted_authorities_only(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("files.example").configure_cert(tls)
    with WebServer(tls) as server, WebServer() as plain:
        server.routes["/a"] = web_server.content(b"data")
        server.routes["/b"] = web_server.redirect(f"{plain.url}/a")
        trusting = replace(ANYWHERE, ca_file=str(tmp_path / "authority.pem"))
        address = addresses.parse(f"https://files.example:{server.port}/a")

        def source(access: Access) -> HttpSource:
            return HttpSource(address, access, resolve=lambda host, port: ["127.0.0.1"])

        with source(trusting).open("a") as reader:
            assert b"".join(reader) == b"data"
        with pytest.raises(Refused, match="not trusted"), source(ANYWHERE).open("a"):
            pass
        with pytest.raises(Refused, match="not trusted"):  # the certificate is for the name
            read(f"{server.url}/a", trusting)
        with pytest.raises(UnsafePath, match="https to http"), source(trusting).open("b"):
            pass
        assert plain.requests == []
