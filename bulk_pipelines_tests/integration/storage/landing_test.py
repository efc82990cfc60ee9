"""Landing: from every kind of source, into a folder and into S3; everything that can be wrong with a source."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from bulk_pipelines.errors import Failure, Permanent
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access, HttpAccess, LoginAccess, S3Access
from bulk_pipelines.storage.compression import HARMLESS, Compression
from bulk_pipelines.storage.contract import Sink, Storage
from bulk_pipelines.storage.errors import BadCompression, Missing, OverLimit, Refused, SourceChanged
from bulk_pipelines.storage.landing import Landed, Limits, land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.servers import web_server
from bulk_pipelines_tests.servers.processes import PASSWORD, LoginServer, Place, S3Server, wait_until
from bulk_pipelines_tests.servers.web_server import WebServer

MB = 1 << 20
ROWS = b"".join(b"%d,user%d@example.com,Name %d,admin,true\n" % (n, n * 7919 % 100_003, n) for n in range(60_000))


@pytest.fixture
def into(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "landed")


def written(folder: Path, data: bytes, name: str = "source") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


NOTHING = Access()


def landed_bytes(landed: Landed, access: Access = NOTHING) -> bytes:
    storage, key = locations.file(landed.url, access)
    return storage.read(key, version=landed.version)


def nothing_left(into: Storage) -> bool:
    folder = Path(into.url_of("x")).parent
    return not folder.exists() or not [each for each in folder.rglob("*") if each.is_file()]


# Where from, where to


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


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


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


# Compression


def members(data: bytes) -> bytes:
    return gzip.compress(data[:1000]) + gzip.compress(b"") + gzip.compress(data[1000:])


def frames(data: bytes) -> bytes:
    return zstd.compress(data[:1000]) + b"\x50\x2a\x4d\x18\x03\0\0\0skp" + zstd.compress(data[1000:])


@pytest.mark.parametrize(
    ("compress", "kind"),
    [
        (gzip.compress, Compression.GZIP),
        (members, Compression.GZIP),
        (lambda data: members(data) + b"\0" * 512, Compression.GZIP),
        (zstd.compress, Compression.ZSTD),
        (frames, Compression.ZSTD),
        (lambda data: b"\x5f\x2a\x4d\x18\x00\0\0\0" + zstd.compress(data), Compression.ZSTD),
    ],
    ids=["gzip", "gzip members", "gzip padded", "zstd", "zstd frames", "zstd skippable first"],
)
@pytest.mark.parametrize("told", [True, False])
def test_compressions(
    into: LocalStorage, tmp_path: Path, compress: Callable[[bytes], bytes], kind: Compression, told: bool
) -> None:
    landed = land(written(tmp_path, compress(ROWS)), into, "J1/0", Access(), compression=kind if told else None)
    assert landed_bytes(landed) == ROWS
    assert landed.compression is kind
    assert landed.sha256 == sha256(ROWS)


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("users.csv", data)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "told", "message"),
    [
        (ROWS, Compression.GZIP, "is not compressed, and was said to be gzip"),
        (ROWS, Compression.ZSTD, "is not compressed, and was said to be zstd"),
        (gzip.compress(ROWS), Compression.ZSTD, "is gzip, and was said to be zstd"),
        (zstd.compress(ROWS), Compression.NONE, "is zstd, and was said to be none"),
        (zipped(ROWS), Compression.GZIP, "is not compressed, and was said to be gzip"),
        (b"7z\xbc\xaf\x27\x1c", None, "is 7-zip; gzip, zstd, bzip2, xz and zip are what can be unpacked"),
        (bz2.compress(ROWS), Compression.XZ, "is bzip2, and was said to be xz"),
        (bz2.compress(ROWS)[:-1], None, "cut off"),
        (bz2.compress(ROWS) + b"garbage", None, "after 1 whole parts, the bzip2 data is damaged"),
        (lzma.compress(ROWS)[:-1], None, "cut off"),
        (lzma.compress(ROWS) + b"garbage" * 3, None, "after 1 whole parts, the xz data is damaged"),
        (gzip.compress(ROWS)[:-9], None, "cut off"),
        (gzip.compress(ROWS)[:5000], None, "cut off"),
        (gzip.compress(ROWS)[:10], None, "cut off"),
        (gzip.compress(ROWS) + gzip.compress(ROWS)[:30], None, "cut off"),
        (zstd.compress(ROWS)[:-1], None, "cut off"),
        (zstd.compress(ROWS)[:5], None, "cut off"),
        (gzip.compress(ROWS) + b"garbage", None, "after 1 whole parts, the gzip data is damaged"),
        (zstd.compress(ROWS) + b"garbage", None, "after 1 whole parts, the zstd data is damaged"),
        (gzip.compress(ROWS)[:3000] + b"\xff" * 3000 + gzip.compress(ROWS)[6000:], None, "damaged"),
        (gzip.compress(ROWS)[:-8] + b"\0" * 8, None, "damaged"),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else None,
)
def test_wrong_compressions(
    into: LocalStorage, tmp_path: Path, data: bytes, told: Compression | None, message: str
) -> None:
    with pytest.raises(BadCompression, match=message):
        land(written(tmp_path, data), into, "J1/0", Access(), compression=told)
    assert nothing_left(into)


def bomb(compressor: Any, megabytes: int) -> bytes:
    return b"".join([*(compressor.compress(b"\0" * MB) for _ in range(megabytes)), compressor.flush()])


@pytest.mark.parametrize(
    "compressor", [zlib.compressobj(9, wbits=31), zstd.ZstdCompressor(level=3)], ids=["gzip", "zstd"]
)
def test_a_bomb_is_stopped_early(tmp_path: Path, compressor: Any) -> None:
    url = written(tmp_path, bomb(compressor, 600))
    assert Path(url).stat().st_size < MB
    into = RecordingStorage(tmp_path / "landed")
    with pytest.raises(OverLimit, match="unpacks to more than 100 times its size"):
        land(url, into, "J1/0", Access(), Limits(ratio=100.0))
    assert into.written <= HARMLESS + MB
    assert nothing_left(into)


class RecordingStorage(LocalStorage):
    """Remembers how much was written, whatever became of it."""

    written = 0

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        with super().publish(key) as sink:
            try:
                yield sink
            finally:
                self.written = sink.size


def test_a_bomb_within_a_high_ratio_still_meets_the_size_limit(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, bomb(zlib.compressobj(9, wbits=31), 100))
    with pytest.raises(OverLimit, match="holds more than 10485760 bytes"):
        land(url, into, "J1/0", Access(), Limits(largest=10 * MB, ratio=1e9))
    assert nothing_left(into)


def test_very_many_tiny_members_take_no_undue_time(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, gzip.compress(b"") * 200_000)
    began = time.monotonic()
    assert land(url, into, "J1/0", Access()).bytes == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("content", [b"", b"1\n"])
def test_very_many_tiny_frames_are_refused_early(into: LocalStorage, tmp_path: Path, content: bytes) -> None:
    url = written(tmp_path, zstd.compress(content) * 500_000)
    began = time.process_time()
    with pytest.raises(OverLimit, match=r"very many tiny zstd frames, 10001 of them .*: compress it as a whole"):
        land(url, into, "J1/0", Access())
    assert time.process_time() - began < 2
    assert nothing_left(into)


def test_very_many_small_records_in_frames_of_their_own(into: LocalStorage, tmp_path: Path) -> None:
    records = [
        f'{{"id": "{number:08}", "email": "reader{number}@example.org", "name": "Reader"}}\n'
        for number in range(20_000)
    ]
    landed = land(written(tmp_path, b"".join(zstd.compress(each.encode()) for each in records)), into, "J1/0", Access())
    assert landed_bytes(landed) == "".join(records).encode()


@pytest.mark.parametrize(("log", "fits"), [(27, True), (28, False), (31, False)])
def test_a_long_window(into: LocalStorage, tmp_path: Path, log: int, fits: bool) -> None:
    """What zstd itself unpacks without being told to, `--long=27`, is unpacked; above, it is no damage."""
    compressor = zstd.ZstdCompressor(options={int(zstd.CompressionParameter.window_log): log})
    url = written(tmp_path, compressor.compress(ROWS) + compressor.flush())
    if fits:
        assert landed_bytes(land(url, into, "J1/0", Access())) == ROWS
        return
    with pytest.raises(OverLimit, match=r"a window above 128 MiB, .*: compress it again with --long=27"):
        land(url, into, "J1/0", Access())
    assert nothing_left(into)


def test_a_small_file_of_high_ratio_is_harmless(into: LocalStorage, tmp_path: Path) -> None:
    landed = land(written(tmp_path, gzip.compress(b"a" * 30 * MB, 9)), into, "J1/0", Access(), Limits(ratio=2.0))
    assert landed.bytes == 30 * MB


# Limits


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


# Sources that do not hold still


def rewrite(path: Path) -> None:
    path.write_bytes(b"y" * 3 * MB)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path: Path) -> None:
    os.truncate(path, MB + 5)


def replace_by_same_size(path: Path) -> None:
    (path.parent / "new").write_bytes(b"z" * 3 * MB)
    (path.parent / "new").replace(path)


CHANGES = [rewrite, grow, shrink, Path.unlink, replace_by_same_size]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read(
    into: LocalStorage, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    url = written(tmp_path, b"x" * 3 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            each(Path(url))

    with pytest.raises(SourceChanged, match="source"):
        land(url, into, "J1/0", Access(), progress=meanwhile)
    assert nothing_left(into)


@pytest.mark.parametrize("change", [grow, shrink, Path.unlink])
def test_a_file_on_ftp_that_changes_while_it_is_read(
    into: LocalStorage, plain_ftp_server: LoginServer, change: Callable[[Path], None]
) -> None:
    place = plain_ftp_server.place()
    path = plain_ftp_server.folder / place.url.rpartition("/")[2] / "source"
    path.write_bytes(b"x" * 30 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            each(path)

    with pytest.raises(Failure, match="source") as caught:
        land(f"{place.url}/source", into, "J1/0", place.access, progress=meanwhile)
    assert caught.value.error_class == "transient"
    assert nothing_left(into)


@pytest.mark.parametrize("change", ["replace", "delete"])
def test_an_object_that_changes_while_it_is_read(into: LocalStorage, s3_bucket: Place, change: str) -> None:
    storage = locations.folder(s3_bucket.url, s3_bucket.access)
    storage.put("source", b"x" * 40 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            storage.delete("source") if each == "delete" else storage.put("source", b"y" * 40 * MB)

    try:
        landed = land(f"{s3_bucket.url}/source", into, "J1/0", s3_bucket.access, progress=meanwhile)
    except SourceChanged:
        assert nothing_left(into)
    else:  # all of it was already on its way: then it is the old version, whole
        assert landed_bytes(landed) == b"x" * 40 * MB


@pytest.mark.parametrize("name", ["none.csv", "no/folder/none.csv"])
def test_what_is_not_there(into: LocalStorage, tmp_path: Path, name: str) -> None:
    with pytest.raises(Missing, match=r"none\.csv does not exist"):
        land(str(tmp_path / name), into, "J1/0", Access())


@pytest.mark.parametrize("name", [".", "/dev/zero", "pipe"])
def test_what_is_not_a_file(into: LocalStorage, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Permanent, match="not a file"):
        land(str(tmp_path / name), into, "J1/0", Access())


# Credentials


@pytest.mark.usefixtures("without_aws")
def test_s3_without_credentials(into: LocalStorage, s3_bucket: Place) -> None:
    locations.folder(s3_bucket.url, s3_bucket.access).put("source", b"data")
    access = Access(s3=S3Access(endpoint=s3_bucket.access.s3.endpoint))
    with pytest.raises(Refused, match="needs credentials, and none were given: see BULK_S3_ACCESS_KEY_ID"):
        land(f"{s3_bucket.url}/source", into, "J1/0", access)


@pytest.mark.parametrize(("key_id", "secret"), [("NOSUCHKEY", "n0t-to-be-shown"), ("TESTACCESSKEY", "n0t-to-be-shown")])
def test_s3_with_wrong_credentials(into: LocalStorage, s3_bucket: Place, key_id: str, secret: str) -> None:
    access = replace(s3_bucket.access, s3=replace(s3_bucket.access.s3, access_key_id=key_id, secret_access_key=secret))
    with pytest.raises(Refused, match="the credentials are wrong") as caught:
        land(f"{s3_bucket.url}/source", into, "J1/0", access)
    assert secret not in str(caught.value)
    assert secret not in repr(access)


@pytest.mark.parametrize("kind", ["ftp", "ftps", "ftpes", "sftp"])
def test_logins_without_and_with_wrong_passwords(kind: str, into: LocalStorage, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(f"{kind}_server").place()
    without = replace(place.access, login=replace(place.access.login, password=""))
    with pytest.raises(Refused, match="none w(as|ere) given"):
        land(f"{place.url}/source", into, "J1/0", without)
    wrong = replace(place.access, login=replace(place.access.login, password="n0t-to-be-shown"))
    with pytest.raises(Refused, match="refuses these credentials") as caught:
        land(f"{place.url}/source", into, "J1/0", wrong)
    assert "n0t-to-be-shown" not in str(caught.value)
    in_address = place.url.replace("tester@", "tester:n0t-to-be-shown@")
    with pytest.raises(Refused, match="refuses these credentials") as caught:
        land(f"{in_address}/source", into, "J1/0", place.access)
    assert "n0t-to-be-shown" not in str(caught.value)


def test_a_password_in_the_address_is_used_and_not_kept(into: LocalStorage, ftp_server: LoginServer) -> None:
    place = ftp_server.place()
    locations.folder(place.url, place.access).put("source", b"data")
    url = place.url.replace("tester@", f"tester:{PASSWORD.replace(' ', '%20')}@")
    landed = land(f"{url}/source", into, "J1/0", Access())
    assert landed.source == f"{place.url}/source"
    assert PASSWORD.split()[0] not in repr(landed)


@pytest.mark.parametrize("kind", ["ftps", "ftpes"])
def test_a_server_that_is_not_trusted(kind: str, into: LocalStorage, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(f"{kind}_server").place()
    with pytest.raises(Refused, match="certificate is not trusted"):
        land(f"{place.url}/source", into, "J1/0", replace(place.access, ca_file=""))


def test_an_ssh_server_that_is_not_known(into: LocalStorage, sftp_server: LoginServer, tmp_path: Path) -> None:
    place = sftp_server.place()
    known = tmp_path / "known_hosts"
    known.write_text("")
    access = Access(login=LoginAccess("tester", PASSWORD, known_hosts=str(known)))
    with pytest.raises(Refused, match="a key that is not known"):
        land(f"{place.url}/source", into, "J1/0", access)


# Crashes

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
