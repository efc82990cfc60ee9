"""Landing: from every kind of source, into a folder and into S3; everything that can be wrong with a source."""

import gzip
import os
import random
import signal
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access, HttpAccess
from bulk_pipelines.storage.compression import Compression
from bulk_pipelines.storage.errors import Missing, OverLimit
from bulk_pipelines.storage.landing import Limits, land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.landed import MB, ROWS, landed_bytes, nothing_left, sha256, written
from bulk_pipelines_tests.servers import web_server
from bulk_pipelines_tests.servers.processes import Place, S3Server, wait_until
from bulk_pipelines_tests.servers.web_server import WebServer


@pytest.mark.parametrize("kind", ["local", "s3", "ftp", "ftpes", "plain_ftp", "sftp", "http"])
@pytest.mark.parametrize("target", ["local", "s3"])
def test_from_everywhere_to_everywhere(
    kind: str, target: str, request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server
) -> None:
    data = gzip.compress(ROWS * 3, 1)
    name = "drop/users 1.csv.gz"
    bucket = s3_server.bucket()
    access = bucket.access
    if kind == "http":
        server = request.getfixturevalue("web")
        server.routes["/users.gz"] = web_server.content(data)
        url = f"{server.url}/users.gz"
        access = replace(access, http=HttpAccess(allow_private=True))
    else:
        place = Place(str(tmp_path / "in"), access)
        if kind != "local":
            fixture = request.getfixturevalue(f"{kind}_server")
            place = fixture.bucket() if kind == "s3" else fixture.place()
        source = locations.folder(place.url, place.access)
        source.put(name, data)
        url = source.url_of(name)
        access = replace(access, login=place.access.login, ca_file=place.access.ca_file) if kind != "s3" else access
    storage = locations.folder(str(tmp_path / "landed") if target == "local" else f"{bucket.url}/landed", access)
    landed = land(url, storage, "J1/0", access)
    assert landed_bytes(landed, access) == ROWS * 3
    assert (landed.bytes, landed.sha256) == (len(ROWS) * 3, sha256(ROWS * 3))
    assert (landed.source_bytes, landed.source_sha256) == (len(data), sha256(data))
    assert landed.compression is Compression.GZIP
    assert landed.url.startswith(storage.url_of("J1/0-"))


def test_a_large_source_in_pieces(into: LocalStorage, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(33 * MB + 5)
    landed = land(written(tmp_path, data), into, "J1/0", Access())
    assert landed_bytes(landed) == data
    assert landed.sha256 == landed.source_sha256 == sha256(data)
    assert landed.compression is Compression.NONE


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7])
def test_the_smallest_sources(into: LocalStorage, tmp_path: Path, size: int) -> None:
    data = b"a,b\n1,2"[:size]
    landed = land(written(tmp_path, data), into, "J1/0", Access())
    assert landed_bytes(landed) == data
    assert landed.bytes == landed.source_bytes == size


def test_the_landed_copy_is_a_copy(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, b"first")
    landed = land(url, into, "J1/0", Access())
    with Path(url).open("r+b") as file:
        file.write(b"other")
    Path(url).unlink()
    assert landed_bytes(landed) == b"first"


def test_landing_again_makes_the_same_object(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, ROWS)
    first = land(url, into, "J1/0", Access())
    again = land(url, into, "J1/0", Access())
    assert replace(again, version=first.version) == first
    assert [entry.key for entry in into.entries()] == [f"J1/{Path(first.url).name}"]


def test_another_version_lands_beside_the_first(into: LocalStorage, tmp_path: Path) -> None:
    first = land(written(tmp_path, b"first"), into, "J1/0", Access())
    second = land(written(tmp_path, b"second"), into, "J1/0", Access())
    assert first.url != second.url
    assert landed_bytes(first) == b"first"
    assert landed_bytes(second) == b"second"


def test_a_link_to_a_file_elsewhere(into: LocalStorage, tmp_path: Path) -> None:
    """Whoever names a source may name it by a link."""
    (tmp_path / "elsewhere").mkdir()
    written(tmp_path / "elsewhere", b"data", "real.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere" / "real.csv")
    assert landed_bytes(land(str(tmp_path / "link.csv"), into, "J1/0", Access())) == b"data"


def test_progress_is_told_and_can_end_it(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, ROWS * 2)
    seen: list[int] = []
    land(url, into, "J1/0", Access(), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(ROWS) * 2
    into.delete(*[entry.key for entry in into.entries()])

    def cancel(arrived: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        land(url, into, "J1/0", Access(), progress=cancel)
    assert nothing_left(into)


def test_too_large_is_known_before_reading(into: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(OverLimit, match="has 100 bytes, more than 99"):
        land(written(tmp_path, b"x" * 100), into, "J1/0", Access(), Limits(largest=99))
    assert land(written(tmp_path, b"x" * 100), into, "J1/0", Access(), Limits(largest=100)).bytes == 100


@pytest.mark.parametrize("answer", [web_server.chunked(b"x" * 3 * MB), web_server.endless(b"x" * 1000)])
def test_a_body_without_end_is_cut(into: LocalStorage, web: WebServer, answer: web_server.Answer) -> None:
    web.routes["/a"] = answer
    with pytest.raises(OverLimit, match="holds more than 1048576 bytes"):
        land(f"{web.url}/a", into, "J1/0", Access(http=HttpAccess(allow_private=True)), Limits(largest=MB))
    assert nothing_left(into)


@pytest.mark.parametrize("name", ["none.csv", "no/folder/none.csv"])
def test_what_is_not_there(into: LocalStorage, tmp_path: Path, name: str) -> None:
    with pytest.raises(Missing, match=r"none\.csv does not exist"):
        land(str(tmp_path / name), into, "J1/0", Access())


@pytest.mark.parametrize("name", [".", "/dev/zero", "pipe"])
def test_what_is_not_a_file(into: LocalStorage, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Permanent, match="not a file"):
        land(str(tmp_path / name), into, "J1/0", Access())


LANDER = """
import sys, time
from pathlib import Path
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access, S3Access
from bulk_pipelines.storage.landing import land

source, into, endpoint = sys.argv[1:]
access = Access(s3=S3Access(endpoint, "us-east-1", "TESTACCESSKEY", "TESTSECRETKEY"))

def stop(arrived):
    if arrived > 20_000_000:
        print("half", flush=True)
        time.sleep(60)

land(source, locations.folder(into, access), "J1/0", access, progress=stop)
"""


@pytest.mark.parametrize("target", ["local", "s3"])
def test_a_killed_landing_leaves_no_file_and_the_next_one_lands(target: str, tmp_path: Path, s3_bucket: Place) -> None:
    data = random.Random(2).randbytes(40 * MB)
    source = written(tmp_path, data)
    url = str(tmp_path / "landed") if target == "local" else s3_bucket.url
    command = [sys.executable, "-c", LANDER, source, url, s3_bucket.access.s3.endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    storage = locations.folder(url, s3_bucket.access)
    assert list(storage.entries()) == []
    landed = land(source, storage, "J1/0", s3_bucket.access)
    assert [entry.key for entry in storage.entries()] == [landed.url.removeprefix(f"{url}/")]
    assert landed_bytes(landed, s3_bucket.access) == data


PEAK = """
import resource, sys
from pathlib import Path
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.landing import land
from bulk_pipelines.storage.local.storage import LocalStorage

land(sys.argv[1], LocalStorage(Path(sys.argv[2])), "J1/0", Access())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_memory_does_not_grow_with_the_source(tmp_path: Path) -> None:
    def peak(megabytes: int) -> int:
        compressor = zlib.compressobj(1, wbits=31)
        block = random.Random(3).randbytes(MB // 4) + ROWS[: MB * 3 // 4]
        url = written(tmp_path, b"".join([*(compressor.compress(block) for _ in range(megabytes)), compressor.flush()]))
        command = [sys.executable, "-c", PEAK, url, str(tmp_path / "landed")]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    assert peak(200) < peak(30) * 1.2


def test_wait_until_fails_in_words() -> None:
    with pytest.raises(AssertionError, match="a pig flies: not within"):
        wait_until(lambda: False, "a pig flies", 0.05)
