"""Listings over a long line, of 20 ms there and back: what was put aside costs nothing, however much it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.storage import locations
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines_tests.scenes.today import one_of
from bulk_pipelines_tests.servers.processes import LoginServer, Place, S3Server
from bulk_pipelines_tests.servers.slow_line import slow_line

ROUND_TRIP = 0.020
IMPORTS = 1_000
OF_ONE_IMPORT = 100


@contextmanager
def far(place: Place, server: LoginServer | S3Server, tmp_path: Path) -> Iterator[Storage]:
    """Provide the storage of a place, reached over a slow line."""
    near = server.port if isinstance(server, LoginServer) else int(server.endpoint.rpartition(":")[2])
    with slow_line(near, ROUND_TRIP) as port:
        access = place.access
        url = place.url.replace(f":{near}/", f":{port}/")
        if isinstance(server, S3Server):
            access = replace(access, s3=replace(access.s3, endpoint=f"http://127.0.0.1:{port}"))
        elif server.scheme == "sftp":
            known = tmp_path / "known_hosts"
            known.write_text(Path(access.login.known_hosts).read_text().replace(f":{near} ", f":{port} "))
            access = replace(access, login=replace(access.login, known_hosts=str(known)))
        with locations.folder(url, access) as storage:
            yield storage


def fill(place: Place, names: list[str]) -> None:
    assert place.folder is not None
    for name in names:
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def old(imports: int, of_one: int) -> list[str]:
    return [f"done/J{job:05}/users-{number:03}.csv" for job in range(imports) for number in range(of_one)]


@pytest.mark.parametrize("kind", ["ftp", "plain_ftp", "sftp", "plain_sftp", "s3"])
def test_what_was_put_aside_costs_nothing(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """The listing asks for none of 300 old imports; on S3 it reads, of 31 with 100 files each, only what the first
    answer holds."""
    server = request.getfixturevalue(f"{kind}_server")
    place = server.bucket() if kind == "s3" else server.place()
    fill(place, [*(old(300, 1) if kind != "s3" else old(31, 100)), "in/new.csv", "new.csv"])
    with far(place, server, tmp_path) as storage:
        assert [entry.key for entry in storage.entries("new.csv")] == ["new.csv"]  # connected
        began = time.monotonic()
        pages = list(storage.pages(aside=("done",)))
        took = time.monotonic() - began
    assert sorted(entry.key for page in pages for entry in page.entries) == ["in/new.csv", "new.csv"]
    assert took < 300 * ROUND_TRIP
    assert kind != "s3" or len(pages) == 2


def test_a_listing_can_be_left_between_two_answers(ftp_server: LoginServer, tmp_path: Path) -> None:
    """Each of the folders costs some round trips; there is a page after each, though no file is in any of them."""
    place = ftp_server.place()
    assert place.folder is not None
    for number in range(300):
        (place.folder / f"{number}").mkdir()
    with far(place, ftp_server, tmp_path) as storage:
        began = time.monotonic()
        for _ in storage.pages():
            if time.monotonic() - began > 1.0:
                break
        assert time.monotonic() - began < 3.0
        storage.put("usable", b"afterwards")
        assert storage.read("usable") == b"afterwards"


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", one_of(["ftp", "plain_ftp", "plain_sftp", "sftp", "s3"]))
def test_a_hundred_thousand_old_files(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """Put aside, they do not make a listing slower."""
    server = request.getfixturevalue(f"{kind}_server")
    place = server.bucket() if kind == "s3" else server.place()
    fill(place, [*old(IMPORTS, OF_ONE_IMPORT), *(f"new-{number}.csv" for number in range(50))])
    with far(place, server, tmp_path) as storage:
        began = time.monotonic()
        keys = [entry.key for page in storage.pages(aside=("done",)) for entry in page.entries]
        took = time.monotonic() - began
        assert len(keys) == 50
        assert took < 10.0
    print(f"{kind}: 50 files beside {IMPORTS * OF_ONE_IMPORT:,} that were put aside: {took:.2f} s")


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", one_of(["ftp", "plain_sftp", "sftp", "s3"]))
def test_very_many_files_in_one_folder(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """FTP servers without MLSD are left out, because they have to be asked for the time of each file. S3 has a tenth of
    the files, because rclone goes through the whole bucket for each page."""
    server = request.getfixturevalue(f"{kind}_server")
    place = server.bucket() if kind == "s3" else server.place()
    many = IMPORTS * OF_ONE_IMPORT // (10 if kind == "s3" else 1)
    fill(place, [f"users-{number:06}.csv" for number in range(many)])
    with far(place, server, tmp_path) as storage:
        began = time.monotonic()
        count = pages = 0
        for page in storage.pages():
            count += len(page.entries)
            pages += 1
        took = time.monotonic() - began
    print(f"{kind}: {count:,} files in {pages:,} pages: {took:.1f} s")
    assert count == many
    assert took < 120.0
    if kind == "s3":
        assert pages == count / 1_000
