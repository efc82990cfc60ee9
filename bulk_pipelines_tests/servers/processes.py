"""Real servers for the tests, on loopback: S3, FTP and SFTP by rclone, other kinds of S3 by moto, of FTP by pyftpdlib
and of SFTP by paramiko."""

import ctypes
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from bulk_pipelines.storage.access import Access, LoginAccess, S3Access
from bulk_pipelines_tests.scenes.privileges import modes_hold_for_good

RCLONE = Path(sysconfig.get_path("scripts")) / "rclone"
USER = "tester"
PASSWORD = "correct horse"
ACCESS_KEY = "TESTACCESSKEY"
SECRET_KEY = "TESTSECRETKEY"
PATIENCE = 20.0
PLACES = 1000
CLIENT_KEY = "client_key"
"""The name of the file, in the folder beside the data, with the key that may log in to SFTP without a password."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Look every few milliseconds until the condition holds; fail with a sentence if it does not come to that."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


@dataclass(frozen=True)
class Place:
    """A folder on a server, made for one test."""

    url: str
    access: Access
    folder: Path | None = None
    """The folder of this machine that lies behind it, if there is one. (rclone remembers what it has listed of the
    folder.)"""


@dataclass
class S3Server:
    endpoint: str
    process: subprocess.Popen[bytes]
    folder: Path | None = None

    @property
    def access(self) -> Access:
        return Access(s3=S3Access(self.endpoint, "us-east-1", ACCESS_KEY, SECRET_KEY))

    def bucket(self) -> Place:
        """Make a new, empty bucket."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name)
        return Place(f"s3://{name}", self.access, self.folder / name if self.folder else None)

    @cached_property
    def client(self):  # type: ignore[no-untyped-def]
        """A client of boto3, for what obstore does not do."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )


@dataclass
class LoginServer:
    """A server to log in to: FTP, FTPS or SFTP."""

    scheme: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    access: Access
    places: list[str]
    """Names of empty folders. They are made before the server starts, because it remembers the listing of its root."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://{USER}@127.0.0.1:{self.port}"

    def place(self) -> Place:
        """Return a folder that is empty and that nobody uses yet. (rclone remembers what a folder held, so put files in
        through the server.)"""
        name = self.places.pop()
        return Place(f"{self.url}/{name}", self.access, self.folder / name)


@contextmanager
def s3(folder: Path) -> Iterator[S3Server]:
    data = folder / "data"
    data.mkdir()
    command = ["serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", str(data)]
    with rclone(command, folder) as (process, log):
        wait_until(lambda: "Starting s3 server on [" in started(process, log), "rclone serves S3")
        endpoint = log.read_text().partition("Starting s3 server on [")[2].partition("]")[0].rstrip("/")
        yield S3Server(endpoint, process, data)


@contextmanager
def any_key_s3(folder: Path) -> Iterator[S3Server]:
    """Run moto's S3 server, which takes any key, as Amazon's does. (rclone's refuses keys with empty, `.` and `..`
    parts.)"""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=dies_with_us) as process,  # noqa: PLW1509 - before any thread
    ):
        try:
            wait_until(lambda: process.poll() is not None or answers(port), "moto serves S3", 60.0)
            yield S3Server(f"http://127.0.0.1:{port}", process)
        finally:
            stop(process)


@contextmanager
def ftp(folder: Path) -> Iterator[LoginServer]:
    """Run rclone's FTP server, which tells names, sizes and times by MLSD."""
    data, places = made(folder)
    port = free_port()
    command = ["serve", "ftp", "--addr", f"127.0.0.1:{port}", "--user", USER, "--pass", PASSWORD, str(data)]
    with rclone(command, folder) as (process, log):
        wait_until(lambda: bool(started(process, log)) and answers(port), "rclone serves FTP")
        yield LoginServer("ftp", port, data, process, Access(login=LoginAccess(USER, PASSWORD)), places)


@contextmanager
def other_ftp(folder: Path, kind: str) -> Iterator[LoginServer]:
    """Run an FTP server of one of the kinds of `ftp_server.py`. (rclone's FTP with TLS leaves the data connections in
    the clear.)"""
    data, places = made(folder)
    login = LoginAccess(USER, PASSWORD)
    access, tls = Access(login=login), list[str]()
    if kind in ("explicit", "implicit"):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "authority.pem"))
        certificate = authority.issue_cert("127.0.0.1")
        tls = [str(folder / "certificate.pem"), str(folder / "key.pem")]
        certificate.cert_chain_pems[0].write_to_path(tls[0])
        certificate.private_key_pem.write_to_path(tls[1])
        access = Access(login=login, ca_file=str(folder / "authority.pem"))
    program = Path(__file__).with_name("ftp_server.py")
    command = [sys.executable, str(program), kind, str(data), USER, PASSWORD, *tls]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, preexec_fn=dies_with_us) as process,  # noqa: PLW1509 - before any thread
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            scheme = {"explicit": "ftpes", "implicit": "ftps"}.get(kind, "ftp")
            yield LoginServer(scheme, port, data, process, access, places)
        finally:
            stop(process)


@contextmanager
def sftp(folder: Path) -> Iterator[LoginServer]:
    data, places = made(folder)
    public = ssh_key(folder / "host_key")
    (folder / "authorized_keys").write_text(f"{ssh_key(folder / CLIENT_KEY)}\n")
    keys = ["--key", str(folder / "host_key"), "--authorized-keys", str(folder / "authorized_keys")]
    command = ["serve", "sftp", "--addr", "127.0.0.1:0", "--user", USER, "--pass", PASSWORD, *keys, str(data)]
    with rclone(command, folder) as (process, log):
        wait_until(lambda: "SFTP server listening on" in started(process, log), "rclone serves SFTP")
        port = int(log.read_text().partition("SFTP server listening on ")[2].split("\n")[0].rpartition(":")[2])
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
        access = Access(login=LoginAccess(USER, PASSWORD, known_hosts=str(folder / "known_hosts")))
        yield LoginServer("sftp", port, data, process, access, places)


@contextmanager
def other_sftp(folder: Path, kind: str) -> Iterator[LoginServer]:
    """Run an SFTP server of one of the kinds of `sftp_server.py`."""
    data, places = made(folder)
    public = ssh_key(folder / "host_key")
    program = Path(__file__).with_name("sftp_server.py")
    command = [sys.executable, str(program), kind, str(data), USER, PASSWORD, str(folder / "host_key")]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, preexec_fn=dies_with_us) as process,  # noqa: PLW1509 - before any thread
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
            access = Access(login=LoginAccess(USER, PASSWORD, known_hosts=str(folder / "known_hosts")))
            yield LoginServer("sftp", port, data, process, access, places)
        finally:
            stop(process)


@contextmanager
def rclone(arguments: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = folder / "log"
    common = [
        "--config",
        str(folder / "rclone.conf"),
        "--cache-dir",
        str(folder / "cache"),
        "--log-file",
        str(log),
        "-v",
    ]
    log.touch()
    with subprocess.Popen([RCLONE, *arguments, *common], stdin=subprocess.DEVNULL, preexec_fn=dies_with_us) as process:  # noqa: PLW1509 - before any thread
        try:
            yield process, log
        finally:
            stop(process)


def started(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return what the server has written to its log so far. Fail if the server has ended."""
    text = log.read_text()
    assert process.poll() is None, f"the server ended: {text}"
    return text


def ssh_key(path: Path) -> str:
    """Make a key: write the private half to the file, and return the public half as text."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.write_bytes(private)
    path.chmod(0o600)
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*form).decode()


def made(folder: Path) -> tuple[Path, list[str]]:
    """Make the folder that is to be served, with empty folders in it. Return it and their names."""
    names = [f"test-{n}" for n in range(PLACES)]
    for name in names:
        (folder / "data" / name).mkdir(parents=True)
    return folder / "data", names


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def dies_with_us() -> None:
    """Make this process end with the test run, so that a run that is killed leaves no server behind; only Linux can do
    that. Also take from it root's right to read everything."""
    modes_hold_for_good()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
