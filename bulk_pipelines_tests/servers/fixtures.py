"""Fixtures of the storage servers. Each server runs once for a test session; each test makes a new folder or bucket."""

from collections.abc import Iterator

import pytest

from bulk_pipelines_tests.servers import processes
from bulk_pipelines_tests.servers.faulty_proxy import FaultyProxy
from bulk_pipelines_tests.servers.processes import LoginServer, Place, S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with processes.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Place:
    """A new bucket on a real S3 server: `url` and `access`."""
    return s3_server.bucket()


@pytest.fixture(scope="session")
def any_key_s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with processes.any_key_s3(tmp_path_factory.mktemp("any-key-s3")) as server:
        yield server


@pytest.fixture
def faulty_s3(s3_server: S3Server) -> Iterator[FaultyProxy]:
    """The S3 server behind a proxy that fails as it is told to."""
    with FaultyProxy(s3_server) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def ftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.ftp(tmp_path_factory.mktemp("ftp")) as server:
        yield server


@pytest.fixture(scope="session")
def ftps_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_ftp(tmp_path_factory.mktemp("ftps"), "implicit") as server:
        yield server


@pytest.fixture(scope="session")
def ftpes_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_ftp(tmp_path_factory.mktemp("ftpes"), "explicit") as server:
        yield server


@pytest.fixture(scope="session")
def plain_ftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_ftp(tmp_path_factory.mktemp("plain-ftp"), "plain") as server:
        yield server


@pytest.fixture(scope="session")
def sizeless_ftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_ftp(tmp_path_factory.mktemp("sizeless-ftp"), "sizeless") as server:
        yield server


@pytest.fixture(scope="session")
def sftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.sftp(tmp_path_factory.mktemp("sftp")) as server:
        yield server


@pytest.fixture(scope="session")
def plain_sftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_sftp(tmp_path_factory.mktemp("plain-sftp"), "plain") as server:
        yield server


@pytest.fixture(scope="session")
def vague_sftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_sftp(tmp_path_factory.mktemp("vague-sftp"), "vague") as server:
        yield server


@pytest.fixture(scope="session")
def silent_ftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginServer]:
    with processes.other_ftp(tmp_path_factory.mktemp("silent-ftp"), "silent") as server:
        yield server
