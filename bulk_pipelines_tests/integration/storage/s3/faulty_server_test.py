"""S3 that fails: what the storage bridges by itself, what it hands on to be retried, and that nothing half is left.

Also the proof that the proxy does what other suites rely on.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from bulk_pipelines.errors import Failure, Permanent, Throttled, Transient
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines.storage.landing import land
from bulk_pipelines.storage.s3.storage import S3Storage
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place

MB = 1 << 20


@pytest.fixture
def place(faulty_s3: FaultyProxy) -> Place:
    return faulty_s3.bucket()


@pytest.fixture
def storage(place: Place) -> Iterator[Storage]:
    with locations.folder(place.url, place.access) as made:
        yield made


@pytest.fixture
def impatient(place: Place) -> Iterator[Storage]:
    """A storage that has none of obstore's own retries."""
    with locations.folder(place.url, without_retries(place.access)) as made:
        yield made


def without_retries(access: Access) -> Access:
    return replace(access, s3=replace(access.s3, retries=0))


def test_without_faults_all_goes_through(faulty_s3: FaultyProxy, storage: Storage) -> None:
    storage.put("a", b"x" * 100)
    assert storage.read("a") == b"x" * 100
    storage.delete("a")
    assert faulty_s3.counts() == {("PUT", ""): 1, ("GET", ""): 2, ("POST", ""): 1}


@pytest.mark.parametrize("kind", ["status", "drop", "lose"])
def test_a_hiccup_is_bridged(faulty_s3: FaultyProxy, storage: Storage, kind: str) -> None:
    storage.put("a", b"x" * 100)
    faulty_s3.add(Fault(kind, times=2))  # type: ignore[arg-type]
    storage.put("b", b"y" * 100)
    assert storage.read("b") == b"y" * 100
    assert sum(count for (_, fault), count in faulty_s3.counts().items() if fault) == 2


def test_a_hiccup_in_a_listing_is_bridged(faulty_s3: FaultyProxy, storage: Storage) -> None:
    storage.put("a", b"x")
    kinds: tuple[Literal["status", "drop", "cut"], ...] = ("status", "drop", "cut")
    for kind in kinds:
        faulty_s3.add(Fault(kind, times=1))
        assert [entry.key for entry in storage.entries()] == ["a"]
    faulty_s3.add(Fault("status", method="GET"))
    with pytest.raises(Throttled, match="503 SlowDown"):
        list(storage.entries())
    assert faulty_s3.counts()["GET", "status"] == 5


def test_slow_down_that_lasts_is_throttled(faulty_s3: FaultyProxy, storage: Storage) -> None:
    faulty_s3.add(Fault("status", method="PUT"))
    with pytest.raises(Throttled, match="503 SlowDown"):
        storage.put("a", b"x")
    assert faulty_s3.counts()["PUT", "status"] == 4
    assert not storage.exists("a")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("status", status=500, body=b"<Error><Code>InternalError</Code></Error>"), Transient),
        (Fault("status", status=502, body=b""), Transient),
        (Fault("status", status=429, body=b""), Throttled),
        (Fault("status", status=400, body=b"<Error><Code>RequestTimeout</Code></Error>"), Transient),
        (Fault("status", status=400, body=b"<Error><Code>InvalidDigest</Code></Error>"), Permanent),
        (Fault("status", status=400, body=b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>"), Permanent),
        (Fault("drop"), Transient),
    ],
)
def test_kinds_of_failures(faulty_s3: FaultyProxy, impatient: Storage, fault: Fault, kind: type[Failure]) -> None:
    impatient.put("there", b"x")
    faulty_s3.add(fault)
    attempts = (
        lambda: impatient.put("a", b"x"),
        lambda: impatient.read("there"),
        lambda: list(impatient.entries()),
    )
    for attempt in attempts:
        with pytest.raises(kind) as caught:
            attempt()
        assert "TESTSECRETKEY" not in str(caught.value)
        assert "Signature" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_plain_ranges_tell_how_long_to_wait(faulty_s3: FaultyProxy, storage: Storage) -> None:
    storage.put("a", b"x" * 100)
    assert storage.read("a", 0, 10) == b"x" * 10
    faulty_s3.add(Fault("status", method="GET", retry_after=3))
    with pytest.raises(Throttled) as caught:
        storage.read("a", 0, 10)
    assert caught.value.retry_after == 3


def test_a_second_try_tells_how_long_to_wait(faulty_s3: FaultyProxy, impatient: Storage) -> None:
    faulty_s3.add(Fault("status", method="PUT", times=2, retry_after=7))
    with pytest.raises(Throttled) as first:
        impatient.put("a", b"x")
    with pytest.raises(Throttled, match="503 SlowDown") as second:
        impatient.put_again("a", b"x")
    assert (first.value.retry_after, second.value.retry_after) == (None, 7)
    assert impatient.put_again("a", b"xyz") == impatient.put("a", b"xyz")
    assert impatient.read("a") == b"xyz"
    with faulty_s3.down(), pytest.raises(Transient, match="cannot be reached"):
        impatient.put_again("a", b"x")


@pytest.mark.parametrize("kind", ["cut", "drop"])
def test_an_answer_that_breaks_off(faulty_s3: FaultyProxy, impatient: Storage, kind: str) -> None:
    impatient.put("a", b"x" * 3 * MB)
    impatient.read("a", 0, 1)
    faulty_s3.add(Fault(kind, method="GET", times=1))  # type: ignore[arg-type]
    with pytest.raises(Transient):
        impatient.read("a")
    assert impatient.read("a") == b"x" * 3 * MB


def test_a_large_write_over_a_bad_line(faulty_s3: FaultyProxy, storage: Storage) -> None:
    faulty_s3.add(Fault("status", share=0.3, method="PUT", times=4))
    data = b"".join(bytes([n]) * MB for n in range(50))
    with storage.publish("big") as sink:
        for n in range(50):
            sink.write(bytes([n]) * MB)
    faulty_s3.clear()
    assert storage.read("big") == data


def test_a_large_write_that_fails_leaves_nothing(faulty_s3: FaultyProxy, impatient: Storage) -> None:
    faulty_s3.add(Fault("status", method="PUT", match="partNumber=2"))
    with pytest.raises(Throttled), impatient.publish("big") as sink:
        for n in range(50):
            sink.write(bytes([n]) * MB)
    faulty_s3.clear()
    assert list(impatient.entries()) == []
    aborted = [path for method, path, _ in faulty_s3.requests if method == "DELETE" and "uploadId" in path]
    assert len(aborted) == 1


@pytest.mark.parametrize("refused", [True, False])
def test_a_large_write_that_is_not_completed_takes_its_parts_back(
    faulty_s3: FaultyProxy, impatient: Storage, refused: bool
) -> None:
    """The server, which has all parts, does not complete the write; or its writer is called off."""
    if refused:
        faulty_s3.add(Fault("status", method="POST", match="uploadId"))
    with pytest.raises(Throttled if refused else KeyboardInterrupt), impatient.publish("big") as sink:
        for n in range(50):
            sink.write(bytes([n]) * MB)
        if not refused:
            raise KeyboardInterrupt
    faulty_s3.clear()
    assert list(impatient.entries()) == []
    aborted = [path for method, path, _ in faulty_s3.requests if method == "DELETE" and "uploadId" in path]
    assert len(aborted) == 1


def test_a_share_of_failures_is_that_share(faulty_s3: FaultyProxy, impatient: Storage) -> None:
    faulty_s3.add(Fault("status", share=0.3, method="PUT"))

    def attempt(n: int) -> bool:
        try:
            impatient.put(f"{n}", b"x")
        except Throttled:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        done = sum(threads.map(attempt, range(400)))
    faulty_s3.clear()
    assert 230 <= done <= 330
    assert sum(1 for _ in impatient.entries()) == done


def test_a_lost_answer_is_a_write_that_happened(faulty_s3: FaultyProxy, impatient: Storage) -> None:
    faulty_s3.add(Fault("lose", method="PUT", times=1))
    with pytest.raises(Transient):
        impatient.put("a", b"x")
    assert impatient.read("a") == b"x"


def test_a_delay(faulty_s3: FaultyProxy, storage: Storage) -> None:
    faulty_s3.add(Fault("delay", seconds=0.4, times=1))
    began = time.monotonic()
    storage.put("a", b"x")
    assert time.monotonic() - began >= 0.4


def test_away_and_back(faulty_s3: FaultyProxy, place: Place, storage: Storage, impatient: Storage) -> None:
    storage.put("a", b"x")
    with faulty_s3.down():
        with pytest.raises(Transient, match="cannot be reached"):
            impatient.read("a")
        refused = faulty_s3.refused
        with ThreadPoolExecutor(1) as executor:
            found = executor.submit(storage.read, "a")
            until(lambda: faulty_s3.refused > refused, "it was asked, and did not answer")
            faulty_s3.is_down = False
            assert found.result() == b"x"
    assert impatient.read("a") == b"x"


def test_a_listing_skips_what_lies_too_deep(faulty_s3: FaultyProxy, storage: Storage) -> None:
    """2,100 objects in a folder that the pattern does not reach cost one page, not three."""
    behind = S3Storage(storage.url_of("x").split("/")[2], "", faulty_s3.behind.access.s3)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: behind.put(f"in/done/{n:04}", b""), range(2100)))
    for name in ("in/a", "in/zzz", "in/yyy/deeper", "out"):
        storage.put(name, b"")
    before = faulty_s3.counts()["GET", ""]
    assert [entry.key for entry in storage.entries("in/*")] == ["in/a", "in/zzz"]
    assert faulty_s3.counts()["GET", ""] - before == 2
    assert sum(1 for _ in storage.entries("in/**")) == 2103


def test_landing_over_a_bad_line(faulty_s3: FaultyProxy, place: Place, tmp_path: Path) -> None:
    """Landing itself does not try again: the engine does, and each try makes the same object."""
    data = b"".join(b"%d,%d\n" % (n, n * n) for n in range(200_000))
    (tmp_path / "source.csv").write_bytes(data)
    faulty_s3.add(Fault("status", share=0.5, method="PUT"))
    faulty_s3.add(Fault("drop", share=0.2))
    storage = locations.folder(place.url, without_retries(place.access))
    for _ in range(50):
        try:
            landed = land(str(tmp_path / "source.csv"), storage, "J1/0", place.access)
            break
        except Transient:
            continue
    else:
        pytest.fail("fifty tries were not enough")
    faulty_s3.clear()
    assert [entry.key for entry in storage.entries()] == [landed.url.removeprefix(f"{place.url}/")]
    assert storage.read(f"J1/{landed.url.rpartition('/')[2]}", version=landed.version) == data


CONFLICT = b"<Error><Code>PreconditionFailed</Code></Error>"
UNKNOWN = b"<Error><Code>NotImplemented</Code></Error>"


@pytest.mark.parametrize("to", [None, "done/file"])
def test_a_removal_names_the_version(faulty_s3: FaultyProxy, place: Place, storage: Storage, to: str | None) -> None:
    """The newer one comes after the last look; a server that knows conditions, as Amazon's does, refuses then."""
    storage.put("file", b"v1")
    version = storage.stat("file").version

    def write_newer() -> None:
        with locations.folder(place.url, place.access) as other:
            other.put("file", b"newer")

    faulty_s3.add(Fault("status", method="DELETE", status=412, body=CONFLICT, times=1, meanwhile=write_newer))
    with pytest.raises(SourceChanged):
        storage.take_away("file", version, to)
    assert faulty_s3.conditions == [("DELETE", f'"{version}"')]
    assert storage.read("file") == b"newer"


@pytest.mark.parametrize(("status", "body"), [(501, UNKNOWN), (412, CONFLICT)])
def test_a_server_that_does_not_know_the_condition(
    faulty_s3: FaultyProxy, storage: Storage, status: int, body: bytes
) -> None:
    """The server says so; or it has no ETags, so that the condition never holds."""
    storage.put("file", b"v1")
    faulty_s3.add(Fault("status", method="DELETE", status=status, body=body, times=1))
    storage.take_away("file", storage.stat("file").version, "done/file")
    assert [entry.key for entry in storage.entries()] == ["done/file"]


def test_a_removal_that_fails_is_an_error(faulty_s3: FaultyProxy, storage: Storage) -> None:
    storage.put("file", b"v1")
    faulty_s3.add(Fault("status", method="DELETE", times=1))
    with pytest.raises(Throttled):
        storage.take_away("file", storage.stat("file").version, None)
    faulty_s3.add(Fault("drop", method="DELETE", times=1))
    with pytest.raises(Transient):
        storage.take_away("file", storage.stat("file").version, None)
    storage.take_away("file", storage.stat("file").version, None)
    assert not storage.exists("file")
