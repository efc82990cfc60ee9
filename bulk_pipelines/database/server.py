"""A private PostgreSQL in a folder: its own data directory and a unix socket only its owner can reach, no TCP.

The server's programs come from a directory, see `binaries`.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil

from bulk_pipelines import settings
from bulk_pipelines.errors import Unavailable

SYSTEM_USER = "embedded_postgres"
"""PostgreSQL refuses to run as root, so root runs it as this user."""

LONGEST_SOCKET = 100
"""Unix socket paths end at 104 characters on macOS and 108 on Linux."""

PLAIN = re.compile(r"[\w./-]+")
"""Paths that mean the same in a shell, in PostgreSQL's lists and in a URL."""

PARAMETERS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
}


@dataclass(frozen=True)
class Server:
    """PostgreSQL with its data in `data`. Nothing is kept in memory: any process may make one for a running server."""

    data: Path
    binaries: Path

    def start(self, timeout: float = 60) -> None:
        """Start the server, with a new data directory when there is none. Nothing happens when it runs."""
        if self.running():
            return
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.remove_foreign_locks()
        self.let_server_user_in()
        self.create_data_directory()
        self.keep_log_short()
        if self.socket_directory != self.data.resolve():
            make_private(self.socket_directory, server_owner())
        options = " ".join(f"-c {name}='{value}'" for name, value in self.parameters().items())
        deadline = time.monotonic() + timeout
        while True:
            failure = self.run(
                *(self.binaries / "pg_ctl", "start", "-D", str(self.data), "-l", str(self.log)),
                *("-w", "-t", str(int(timeout)), "-o", options),
            )
            if failure is None:
                return
            # The processes of a server that was killed need a moment to notice; until then a new one is refused.
            if "shared memory block" not in self.log_tail() or time.monotonic() > deadline:
                reason = self.log_tail() or failure
                raise Unavailable(f"PostgreSQL in {self.data} does not start: {reason} (see {self.log})")
            time.sleep(0.2)

    def stop(self, timeout: float = 60) -> None:
        """Stop the server: sessions are ended, everything is written."""
        self.end(signal.SIGINT, timeout)

    def stop_immediately(self, timeout: float = 60) -> None:
        """Stop the server as a crash would; the next start recovers from its log."""
        self.end(signal.SIGQUIT, timeout)

    def restart(self) -> None:
        self.stop()
        self.start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_directory}"

    def running(self) -> bool:
        return self.postmaster() is not None

    def postmaster(self) -> psutil.Process | None:
        """The server's main process. The process must be a PostgreSQL at home in this folder: ids are used again."""
        try:
            process = psutil.Process(int((self.data / "postmaster.pid").read_text().split("\n", 1)[0]))
            if process.status() != psutil.STATUS_ZOMBIE and process.name().startswith("postgres"):
                return process if Path(process.cwd()) == self.data.resolve() else None
        except (OSError, ValueError, psutil.Error):
            pass
        return None

    @property
    def log(self) -> Path:
        return self.data / "server.log"

    @cached_property
    def version(self) -> int:
        """The major version of the binaries."""
        answer = subprocess.run([self.binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"(\d+)", answer.stdout.split(") ", 1)[-1])
        if found is None:
            raise Unavailable(f"{self.binaries / 'postgres'} does not tell its version")
        return int(found.group(1))

    @cached_property
    def socket_directory(self) -> Path:
        return socket_folder(self.data, ".s.PGSQL.5432.lock")

    def parameters(self) -> dict[str, str]:
        return PARAMETERS | {"unix_socket_directories": str(self.socket_directory)}

    def create_data_directory(self) -> None:
        if (self.data / "PG_VERSION").exists():
            self.refuse_other_version()
            return
        # Made beside its place and moved there whole: a killed initdb must not leave half a database behind.
        unfinished = self.data.with_name(self.data.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        os.chown(unfinished, *server_owner())
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        failure = self.run(
            self.binaries / "initdb",
            *("-D", str(unfinished), "-U", "postgres", "--auth=trust", "--encoding=UTF8"),
            *(locale if self.version >= 17 else ["--locale=C.UTF-8"]),
        )
        if failure is not None:
            raise Unavailable(f"a database cannot be made in {self.data}: {failure}")
        if self.data.exists():
            self.data.rmdir()
        unfinished.rename(self.data)

    def refuse_other_version(self) -> None:
        kept = (self.data / "PG_VERSION").read_text().strip()
        if kept != str(self.version):
            raise Unavailable(
                f"{self.data} was made by PostgreSQL {kept} and the server here is PostgreSQL {self.version}: "
                "dump it with the old version and load it with the new one, or move the folder away"
            )

    def remove_foreign_locks(self) -> None:
        """After a crash the process id in a lock file may belong to some other program, or to a dead process that
        nobody has buried, and PostgreSQL would refuse to start. A file whose process is gone is left to PostgreSQL."""
        for lock in (self.data / "postmaster.pid", self.socket_directory / ".s.PGSQL.5432.lock"):
            with contextlib.suppress(OSError, ValueError):
                if psutil.pid_exists(int(lock.read_text().split("\n", 1)[0])):
                    lock.unlink()

    def let_server_user_in(self) -> None:
        """Root only: the server's own user must reach its binaries and its data."""
        if os.geteuid() != 0:
            return
        server_owner()
        for folder in {*self.data.resolve().parents, *self.binaries.resolve().parents}:
            allow(folder, 0o011)
        if (self.binaries / "postgres").stat().st_mode & 0o005 != 0o005:
            for path in self.binaries.parent.rglob("*"):
                allow(path, 0o055 if path.is_dir() or path.parent == self.binaries else 0o044)

    def keep_log_short(self) -> None:
        if self.log.exists() and self.log.stat().st_size > 10_000_000:
            self.log.replace(self.log.with_suffix(".log.old"))

    def end(self, request: signal.Signals, timeout: float) -> None:
        process = self.postmaster()
        if process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(request)
            if not ended(process, timeout):
                process.kill()
                ended(process, timeout)

    def run(self, *command: str | Path) -> str | None:
        """Run one of the server's programs as the server's user; None, or what it said when it failed."""
        root = os.geteuid() == 0
        user, group = server_owner()
        environment = {name: value for name, value in settings.environment().items() if not name.startswith("PG")}
        # A file, not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd="/",
                check=False,
                user=user if root else None,
                group=group if root else None,
                extra_groups=[] if root else None,
            )
            output.seek(0)
            return None if done.returncode == 0 else last_line(output.read().splitlines())

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-20:] if self.log.exists() else []
        return next((line for line in reversed(lines) if "FATAL" in line), last_line(lines))


def server_owner() -> tuple[int, int]:
    """The user and group that the server runs as; root makes them when they are not there yet."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        try:
            subprocess.run(["useradd", "--system", "--user-group", SYSTEM_USER], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(
                f"PostgreSQL does not run as root and the user {SYSTEM_USER} for it cannot be made ({error}): "
                "make that user, or work as another user than root"
            ) from None
        entry = pwd.getpwnam(SYSTEM_USER)
    return entry.pw_uid, entry.pw_gid


def socket_folder(folder: Path, name: str) -> Path:
    """The folder itself, or a short one under the temporary folder when sockets do not go with its path."""
    folder = folder.resolve()
    if len(str(folder / name)) <= LONGEST_SOCKET and PLAIN.fullmatch(str(folder)):
        return folder
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()).resolve() / f"bulk-{key}"


def make_private(folder: Path, owner: tuple[int, int]) -> None:
    """A folder that only its owner can enter. One that somebody else has made in its place is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid not in {os.geteuid(), owner[0]}:
        raise Unavailable(f"{folder} belongs to somebody else: remove it, or name a shorter folder as BULK_HOME")
    folder.chmod(0o700)
    os.chown(folder, *owner)


def allow(path: Path, permissions: int) -> None:
    mode = path.stat().st_mode
    if mode & permissions != permissions:
        path.chmod(mode | permissions)


def ended(process: psutil.Process, timeout: float) -> bool:
    """Wait for a process that is no child of this one. One that nobody has buried yet has ended, too."""
    deadline = time.monotonic() + timeout
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def last_line(lines: Sequence[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
