"""What is asked of SFTP servers while a file is read or written, and what they answer."""

import threading
from pathlib import Path

import pytest

from bulk_pipelines.errors import Transient
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.storages import MB, noise
from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.processes import LoginServer


def test_a_server_that_sends_less_than_it_is_asked_for(tmp_path: Path) -> None:
    data = noise(MB + 7)
    with processes.other_sftp(tmp_path, "brief") as server:
        place = server.place()
        (server.folder / place.url.rsplit("/", 1)[1] / "file").write_bytes(data)
        with locations.folder(place.url, place.access) as storage:
            assert storage.read("file") == data
            assert storage.read("file", 99_999, 200_001) == data[99_999:200_001]


def test_no_other_thread_asks(sftp_server: LoginServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread might ask when the channel is closed. Servers give the number of a closed channel to the next one,
    which would get the answers."""
    place = sftp_server.place()
    with locations.folder(place.url, place.access) as storage:
        storage.put("file", noise(9 * MB))
        monkeypatch.setattr(threading.Thread, "start", None)
        assert len(storage.read("file")) == 9 * MB
        assert len(storage.read("file", 5, 50_000)) == 49_995


def test_a_piece_that_the_server_refuses_is_not_left_out(tmp_path: Path) -> None:
    with processes.other_sftp(tmp_path, "holey") as server:
        place = server.place()
        with locations.folder(place.url, place.access) as storage:
            with pytest.raises(Transient), storage.publish("file") as sink:
                sink.write(noise(MB))
            assert [each.key for page in storage.pages() for each in page.entries] == []
