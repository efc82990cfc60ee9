"""What `storage.contract` promises of listings, held against every storage alike.

Whatever names lie there, and whatever must not be read. The files are put behind the servers' backs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bulk_pipelines.errors import Failure, Transient
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access, S3Access
from bulk_pipelines.storage.contract import LeftOut, Storage
from bulk_pipelines.storage.errors import Missing, Refused
from bulk_pipelines_tests.scenes.privileges import modes_hold
from bulk_pipelines_tests.servers.processes import Place, S3Server

HONEST = ["local", "ftps", "ftpes", "plain_ftp", "sizeless_ftp", "silent_ftp", "plain_sftp", "vague_sftp"]
"""Servers that say what they must not read. rclone's servers show it as empty, and nobody can know."""
ALL = [*HONEST, "ftp", "sftp"]
GOOD = ["a.csv", "in/b.csv", "ü ñ – 漢字.csv", "z%20?#.csv"]
HOSTILE = [
    b"bell\a.csv",
    b"carriage\r.csv",
    b"new\nline.csv",
    b"tab\tname.csv",
    b"delete\x7f.csv",
    b"back\\slash.csv",
    b"not \xff utf-8.csv",
    b"..\\..\\up.csv",
    b"bad\\folder/inside.csv",
    b"bad\nfolder/inside.csv",
]
PHANTOMS = {"new", "bad", "carriage", "not \N{REPLACEMENT CHARACTER} utf-8.csv", "not ? utf-8.csv"}
"""What is left of such names on servers that write one line for each file, or UTF-8 in any case."""
HOSTILE_KEYS = [
    "a//b.csv",
    "/first.csv",
    "./dot.csv",
    "in/./dot.csv",
    "in/../up.csv",
    "../up.csv",
    "control\x01.csv",
    "tab\t.csv",
    "delete\x7f.csv",
    "back\\slash.csv",
    f"{'x' * 256}.csv",
    f"{'ü' * 128}.csv",
    "not empty/",
]


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        (tmp_path / "folder").mkdir()
        return Place(str(tmp_path / "folder"), Access(), tmp_path / "folder")
    made: Place = request.getfixturevalue(f"{request.param}_server").place()
    return made


@pytest.fixture
def behind(place: Place) -> Path:
    assert place.folder is not None
    return place.folder


honest = pytest.mark.parametrize("place", HONEST, indirect=True)


def opened(place: Place) -> Storage:
    return locations.folder(place.url, place.access)


def put(folder: Path, *names: str | bytes) -> None:
    for name in names:
        path = Path(os.fsdecode(bytes(folder) + b"/" + os.fsencode(name)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"content")


def listed(storage: Storage, pattern: str = "**", aside: tuple[str, ...] = ()) -> tuple[list[str], list[LeftOut]]:
    keys, left_out = [], []
    for page in storage.pages(pattern, aside):
        keys += [entry.key for entry in page.entries]
        left_out += page.left_out
    return sorted(keys), left_out


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def test_a_name_that_is_no_key_hides_no_other(place: Place, behind: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(behind, *GOOD, *HOSTILE)
    with opened(place) as storage:
        keys, left_out = listed(storage)
        assert set(GOOD) <= set(keys)
        assert all(storage.read(key) == b"content" for key in set(keys) - PHANTOMS)
        assert "back\\slash.csv" in {each.name for each in left_out}
        assert all(str(each).isprintable() for each in left_out)
        assert {each.name for each in left_out if each.unread} <= PHANTOMS
        assert {entry.key for entry in storage.entries()} == set(keys)
        assert [record.getMessage() for record in caplog.records if "back\\\\slash.csv" in record.getMessage()]


@pytest.mark.long
@pytest.mark.parametrize("server", ["any_key_s3", "s3"])
def test_a_key_that_is_none_of_ours_hides_no_other(server: str, request: pytest.FixtureRequest) -> None:
    s3: S3Server = request.getfixturevalue(f"{server}_server")
    bucket = s3.bucket()
    accepted = []
    for key in [*GOOD, *HOSTILE_KEYS]:
        try:
            s3.client.put_object(Bucket=bucket.url.removeprefix("s3://"), Key=key, Body=b"content")
            accepted.append(key)
        except s3.client.exceptions.ClientError:
            assert (server, key in HOSTILE_KEYS) == ("s3", True), "rclone refuses some"
    with opened(bucket) as storage:
        keys, left_out = listed(storage)
        assert set(GOOD) <= set(keys)
        assert all(storage.read(key) == b"content" for key in keys), "rclone tells some by other names"
        assert server == "s3" or (sorted(GOOD), {each.name for each in left_out}) == (keys, set(HOSTILE_KEYS))
        assert all(str(each).isprintable() for each in left_out)
        assert listed(storage, "in/*")[0] == ["in/b.csv"]
        assert len(accepted) > len(GOOD)


def test_markers_of_folders_are_no_files(any_key_s3_server: S3Server) -> None:
    bucket = any_key_s3_server.bucket()
    for key in ("drop/", "drop/users_folder/", "drop/users_folder_$folder$", "drop/users_folder/a.csv", "drop/empty"):
        any_key_s3_server.client.put_object(Bucket=bucket.url.removeprefix("s3://"), Key=key, Body=b"")
    for url in (bucket.url, f"{bucket.url}/drop"):
        with opened(Place(url, bucket.access)) as storage:
            keys, left_out = listed(storage)
        assert [key.removeprefix("drop/") for key in keys] == ["empty", "users_folder/a.csv"]
        assert left_out == []


@honest
@pytest.mark.parametrize("bits", [0o000, 0o100, 0o300])
def test_a_folder_that_must_not_be_read_is_left_out(place: Place, behind: Path, bits: int) -> None:
    put(behind, *GOOD, "in/lost+found/secret.csv", "in/lost+found/deeper/secret.csv", "in/lost/found.csv")
    with mode(behind / "in" / "lost+found", bits), modes_hold(), opened(place) as storage:
        for _ in range(2):
            keys, left_out = listed(storage)
            assert keys == sorted([*GOOD, "in/lost/found.csv"])
            assert [(each.name, each.unread) for each in left_out] == [("in/lost+found", True)]
            assert "cannot be listed" in left_out[0].why
            assert str(left_out[0]).isprintable()


def test_a_file_that_must_not_be_read_is_listed_or_left_out(place: Place, behind: Path) -> None:
    put(behind, *GOOD, "in/secret.csv")
    with mode(behind / "in" / "secret.csv", 0o000), modes_hold(), opened(place) as storage:
        assert set(GOOD) <= set(listed(storage)[0])


@pytest.mark.parametrize("place", [each for each in HONEST if each not in ("ftps", "ftpes")], indirect=True)
def test_a_folder_whose_files_must_not_be_looked_at(place: Place, behind: Path) -> None:
    """The folder's names can be read, and nothing else of its files. (pyftpdlib's MLSD shows the folder as empty.)"""
    put(behind, *GOOD, "in/closed/a.csv")
    with mode(behind / "in" / "closed", 0o400), modes_hold(), opened(place) as storage:
        keys, left_out = listed(storage)
        assert keys == sorted(GOOD)
        assert [each.unread for each in left_out] == [True]


@honest
def test_a_source_that_must_not_be_read_is_an_error(place: Place, behind: Path) -> None:
    """A source that cannot be read does not count as empty: what was seen there before would be taken for gone."""
    put(behind, *GOOD)
    with mode(behind, 0o000), modes_hold(), opened(place) as storage, pytest.raises(Failure) as caught:
        listed(storage)
    assert not isinstance(caught.value, Missing) or "ftp" in place.url


@honest
def test_folders_that_are_put_aside_are_not_looked_into(place: Place, behind: Path) -> None:
    put(behind, *GOOD, "done/J1/a.csv", "failed/J2/a.csv", "in/done/a.csv", "done.csv", "doner/a.csv")
    with mode(behind / "done", 0o000), mode(behind / "failed", 0o000), modes_hold(), opened(place) as storage:
        keys, left_out = listed(storage, aside=("done", "failed"))
    assert keys == sorted([*GOOD, "in/done/a.csv", "done.csv", "doner/a.csv"])
    assert left_out == []


@pytest.mark.usefixtures("without_aws")
def test_a_bucket_that_is_not_to_be_listed(s3_server: S3Server, s3_bucket: Place) -> None:
    wrong = replace(s3_bucket.access.s3, secret_access_key="n0t-to-be-shown")
    cases: list[tuple[str, S3Access, type[Failure], str]] = [
        (s3_bucket.url, S3Access(s3_server.endpoint), Refused, "needs credentials, and none were given"),
        (s3_bucket.url, wrong, Refused, "the credentials are wrong or may not do that"),
        ("s3://no-such-bucket", s3_bucket.access.s3, Missing, "the bucket of s3://no-such-bucket does not exist"),
        (s3_bucket.url, replace(wrong, endpoint="http://127.0.0.1:9", retries=0), Transient, "cannot be reached"),
    ]
    for url, access, kind, said in cases:
        with opened(Place(url, Access(s3=access))) as storage, pytest.raises(kind, match=said) as caught:
            list(storage.entries())
        assert "n0t" not in str(caught.value)
