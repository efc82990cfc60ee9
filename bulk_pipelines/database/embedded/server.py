"""A private PostgreSQL in a folder. It has its own data directory and a Unix socket that only its owner can reach, and
no TCP port.

Process ids do not tell whether it lives, because they mean something else in each container. The server holds the lock
of its data folder (see `locks`) from its first moment to the end of its last process, and its socket lies in that
folder.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil
import psycopg

from bulk_pipelines import settings
from bulk_pipelines.database import folders, logs
from bulk_pipelines.database.embedded import locks, machine, owner
from bulk_pipelines.errors import Unavailable

SOCKET = ".s.PGSQL.5432"
STOP_SECONDS = 60.0

FOLDER = "{folder}"
"""What stands for the folder of the data in the arguments of PostgreSQL's programs."""

PARAMETERS = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
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
    """A PostgreSQL server with its data in `data`. This object keeps no state, so any process may make one for a server
    that is running."""

    data: Path
    binaries: Path

    def start(self, timeout: float = 60) -> bool:
        """Start the server, with a new data directory when there is none. Return whether a start was needed."""
        if self.listens():
            return False
        folders.ready(self.data.parent)
        self.create_data_directory()
        deadline = time.monotonic() + timeout
        while (lock := self.unused()) is None:
            # The lock is held by a server that is just starting or ending, or by the last processes of a killed one.
            if self.listens():
                return False
            if time.monotonic() > deadline:
                raise self.silent("its socket is closed")
            time.sleep(0.02)
        try:
            self.clear_away_locks()
            logs.shorten(self.log)
        except BaseException:
            os.close(lock)
            raise
        options = " ".join(f"-c {name}='{value}'" for name, value in PARAMETERS.items())
        failure = self.run(
            *("pg_ctl", "start", "-D", FOLDER, "-l", f"{FOLDER}/{self.log.name}"),
            *("-w", "-t", str(int(timeout)), "-o", options),
            folder=self.data,
            keeps=lock,
        )
        if failure is not None:
            raise Unavailable(f"PostgreSQL in {self.data} does not start: {self.reason() or failure} (see {self.log})")
        return True

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Stop the server: it ends all sessions, and writes everything to the disk."""
        self.end(signal.SIGINT, timeout)

    def stop_immediately(self) -> None:
        """Stop the server as a crash would. The next start recovers from the write-ahead log."""
        self.end(signal.SIGQUIT, STOP_SECONDS)

    def restart(self) -> None:
        self.stop()
        self.start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_directory}"

    def running(self) -> bool:
        return locks.folder_in_use(self.data) or self.postmaster() is not None

    def listens(self) -> bool:
        """Whether a server has its socket open in the folder. The server may run in any container of this machine."""
        if not (self.data / SOCKET).exists():
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(self.socket_directory / SOCKET))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except BlockingIOError:  # so many processes want to connect that this one would have to wait
                return True
            return True

    def unused(self) -> int | None:
        """Take the lock of the data folder; None if a server runs on it. (A server that was started by hand holds no
        lock, so its process is looked for, too.)"""
        return None if self.postmaster() else locks.folder(self.data)

    def postmaster(self) -> psutil.Process | None:
        """Return the server's main process, if this process can see it. It must be a PostgreSQL whose working folder is
        the data folder."""
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(self.process_id())
            if process.status() != psutil.STATUS_ZOMBIE and process.name().startswith("postgres"):
                return process if home_of(process).samefile(self.data) else None
        return None

    def process_id(self) -> int:
        """Return the process id that the server wrote down. It may belong to another process in this container than in
        the server's."""
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    @property
    def log(self) -> Path:
        return self.data / "server.log"

    @cached_property
    def version(self) -> int:
        """The major version of the programs."""
        answer = subprocess.run([self.binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"(\d+)", answer.stdout.split(") ", 1)[-1])
        if found is None:
            raise Unavailable(f"{self.binaries / 'postgres'} does not tell its version")
        return int(found.group(1))

    @property
    def socket_directory(self) -> Path:
        return folders.for_sockets(self.data, f"{SOCKET}.lock")

    def create_data_directory(self) -> None:
        if (self.data / "PG_VERSION").exists():
            self.refuse_other_version()
            return
        if self.data.exists() and any(self.data.iterdir()):
            raise Unavailable(f"{self.data} holds other files than a database: move it away")
        # It is made beside its place and moved there whole, because a killed initdb must not leave half a database.
        unfinished = self.data.with_name(self.data.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        os.chown(unfinished, *owner.of(self.data))
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        failure = self.run(
            *("initdb", "-D", FOLDER, "-U", "postgres", "--auth=trust", "--encoding=UTF8"),
            *(locale if self.version >= 17 else ["--locale=C.UTF-8"]),
            folder=unfinished,
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

    def clear_away_locks(self) -> None:
        """Remove the lock files of a server that is gone. The caller holds the folder's lock, so nobody uses it.

        After a crash, the process id in a lock file may belong to some other program, or to a zombie process, and
        PostgreSQL would refuse to start. A file whose process is gone is left to PostgreSQL."""
        if (self.data / "postmaster.pid").exists():
            machine.refuse_other(self.data)
        for lock in (self.data / "postmaster.pid", self.data / f"{SOCKET}.lock"):
            with contextlib.suppress(FileNotFoundError, ValueError):
                if psutil.pid_exists(int(lock.read_text().split("\n", 1)[0])):
                    lock.unlink()
        machine.note(self.data)

    def silent(self, symptom: str) -> Unavailable:
        """Return the error for a server that lives and cannot be used. No other one is started in its place, because
        two servers on one folder would destroy the data."""
        process = self.postmaster()
        where = f"process {process.pid}" if process else "one that cannot be seen from here"
        return Unavailable(
            f"a PostgreSQL uses {self.data} and does not answer ({where}: {symptom}): end it, or wait for its end"
        )

    def end(self, request: signal.Signals, timeout: float) -> None:
        process = self.postmaster()
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(request)
        elif self.listens():
            self.end_elsewhere(request)
        if not self.ended(timeout) and process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if not self.ended(timeout):
            raise self.silent("it does not end")

    def end_elsewhere(self, request: signal.Signals) -> None:
        """End a server whose process cannot be seen from here, by a statement that makes it send itself the signal."""
        command = f"COPY (SELECT 1) TO PROGRAM 'kill -{int(request)} {self.process_id()}'"
        with (
            contextlib.suppress(psycopg.Error),
            psycopg.connect(self.url(), connect_timeout=10, autocommit=True) as connection,
        ):
            connection.execute(command.encode())

    def ended(self, timeout: float) -> bool:
        """Wait until no process of the server is left. Return False if that takes longer than `timeout`."""
        deadline = time.monotonic() + timeout
        while self.running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def run(self, program: str, *arguments: str, folder: Path, keeps: int | None = None) -> str | None:
        """Run one of the server's programs, as the server's user; return None, or what it said when it failed.

        `FOLDER` in the arguments stands for the folder that it works on. `keeps` is a lock on that folder which from
        now on belongs to the program, and to the server that it leaves behind.
        """
        environment = {name: value for name, value in settings.environment().items() if not name.startswith("PG")}
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if keeps is None else keeps
        # A file, not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            try:
                root = os.geteuid() == 0
                user, group = owner.of(folder)
                seen = owner.seen(descriptor) if root else str(folder)
                running = subprocess.Popen(
                    [owner.runnable(self.binaries) / program, *(each.replace(FOLDER, seen) for each in arguments)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd="/",
                    user=user if root else None,
                    group=group if root else None,
                    extra_groups=[] if root else None,
                    umask=folders.UMASK,
                    pass_fds=[descriptor],
                )
            finally:
                os.close(descriptor)
            if running.wait() == 0:
                return None
            output.seek(0)
            return logs.error_in(output.read())

    def reason(self) -> str:
        return logs.error_in(logs.end_of(self.log))


def home_of(process: psutil.Process) -> Path:
    """Return the working folder of a process, as a path that is right even if the process sees other paths than this
    one."""
    link = Path(f"/proc/{process.pid}/cwd")
    return link if link.exists() else Path(process.cwd())
