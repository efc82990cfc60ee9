"""FTP and SFTP connections that break, idle away or are refused."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.errors import InvalidInput, Transient
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.errors import Refused
from bulk_pipelines.storage.ftp.storage import FtpStorage
from bulk_pipelines.storage.sftp.storage import SftpStorage
from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.processes import LoginServer, stop

MB = 1 << 20
KINDS = ["ftp", "ftps", "ftpes", "sftp"]


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LoginServer]:
    """A server of the test's own, that it may stop."""
    with ExitStack() as stack:
        if request.param == "ftp":
            yield stack.enter_context(processes.ftp(tmp_path))
        elif request.param == "sftp":
            yield stack.enter_context(processes.sftp(tmp_path))
        else:
            kind = {"ftps": "implicit", "ftpes": "explicit"}[request.param]
            yield stack.enter_context(processes.other_ftp(tmp_path, kind))


@pytest.fixture
def storage(server: LoginServer) -> Iterator[FtpStorage | SftpStorage]:
    place = server.place()
    with locations.folder(place.url, place.access) as made:
        assert isinstance(made, FtpStorage | SftpStorage)
        yield made


def break_idle_connections(storage: FtpStorage | SftpStorage) -> None:
    if isinstance(storage, FtpStorage):
        assert storage.pool.idle
        for each in storage.pool.idle:
            assert each.ftp.sock is not None
            each.ftp.sock.shutdown(socket.SHUT_RDWR)
    else:
        assert storage.pool.client is not None
        transport = storage.pool.client.get_transport()
        assert transport is not None
        transport.sock.close()
        transport.join(10)


def test_connections_that_broke_while_idle_are_replaced(storage: FtpStorage | SftpStorage) -> None:
    storage.put("file", b"data")
    for _ in range(2):
        break_idle_connections(storage)
        assert storage.read("file") == b"data"


def test_a_server_that_ends_in_the_middle_of_reading(server: LoginServer, storage: FtpStorage | SftpStorage) -> None:
    storage.put("file", b"x" * 60 * MB)
    with pytest.raises(Transient), storage.open("file") as reader:
        for number, _ in enumerate(reader):
            if number == 0:
                stop(server.process)
    with pytest.raises(Transient, match="cannot be reached"):
        storage.read("file")


def test_a_server_that_ends_in_the_middle_of_writing(server: LoginServer, storage: FtpStorage | SftpStorage) -> None:
    storage.put("other", b"x")
    with pytest.raises(Transient), storage.publish("file") as sink:
        for number in range(100):
            sink.write(b"x" * MB)
            if number == 1:
                stop(server.process)
    folder = server.folder / storage.url_of("x").split("/")[3]
    assert not (folder / "file").exists()


def test_a_file_that_is_replaced_in_the_middle_of_reading(
    server: LoginServer, storage: FtpStorage | SftpStorage
) -> None:
    storage.put("file", b"x" * 60 * MB)
    file = server.folder / storage.url_of("x").split("/")[3] / "file"
    with pytest.raises(Transient), storage.open("file") as reader:
        for number, _ in enumerate(reader):
            if number == 0:
                # rclone remembers the size that it saw last, so at no moment the file is empty.
                with file.open("r+b", buffering=0) as replaced:
                    replaced.write(b"y" * MB)
                    replaced.truncate(MB)
    assert storage.read("file") == b"y" * MB


def test_nobody_answers(tmp_path: Path) -> None:
    port = processes.free_port()
    for scheme in KINDS:
        with pytest.raises(Transient, match=f"{scheme}://.*cannot be reached"):
            locations.folder(f"{scheme}://me@127.0.0.1:{port}/x", Access()).stat("file")


def test_nobody_is_named() -> None:
    with pytest.raises(InvalidInput, match="names no user"):
        locations.folder("sftp://127.0.0.1/x", Access()).stat("file")


def test_the_wrong_kind_of_tls(tmp_path: Path) -> None:
    with processes.other_ftp(tmp_path, "explicit") as server:
        url = server.url.replace("ftpes", "ftps")
        with pytest.raises(Transient, match="the other one of ftps:// and ftpes:// is meant"):
            locations.folder(url, server.access).stat("file")


def test_sftp_by_key(sftp_server: LoginServer, tmp_path: Path) -> None:
    place = sftp_server.place()
    key = sftp_server.folder.parent / processes.CLIENT_KEY
    login = replace(place.access.login, password="", key_file=str(key))
    with locations.folder(place.url, replace(place.access, login=login)) as storage:
        storage.put("file", b"data")
        assert storage.read("file") == b"data"
    other = tmp_path / "other_key"
    processes.ssh_key(other)
    wrong = replace(place.access, login=replace(login, key_file=str(other)))
    with pytest.raises(Refused, match="refuses these credentials"):
        locations.folder(place.url, wrong).stat("file")
    missing = replace(place.access, login=replace(login, key_file=str(tmp_path / "none")))
    with pytest.raises(InvalidInput, match="BULK_SFTP_KEY_FILE"):
        locations.folder(place.url, missing).stat("file")


def test_an_ssh_server_that_shows_another_key(sftp_server: LoginServer, tmp_path: Path) -> None:
    place = sftp_server.place()
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{sftp_server.port} {processes.ssh_key(tmp_path / 'key')}\n")
    access = replace(place.access, login=replace(place.access.login, known_hosts=str(known)))
    with pytest.raises(Refused, match="shows another key"):
        locations.folder(place.url, access).stat("file")


@pytest.mark.parametrize("server", ["sftp"], indirect=True)
def test_a_connection_that_breaks_just_when_it_is_given_back(storage: FtpStorage | SftpStorage) -> None:
    """Ending its channel fails then: that says nothing more, and hides no error."""
    assert isinstance(storage, SftpStorage)
    storage.put("file", b"x")
    channel = storage.pool.take()
    socket_of_channel = channel.get_channel()
    assert socket_of_channel is not None
    transport = socket_of_channel.get_transport()
    transport.packetizer.close()  # what is sent from now on finds a closed connection
    storage.pool.give(channel, usable=False)
    transport.join(10)
    assert storage.read("file") == b"x"
