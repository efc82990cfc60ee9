"""A folder on an SSH server; through paramiko.

A file is sent under a temporary name and renamed. Servers tell times to the second, so two contents of one size within
one second look like one version. Operations share one SSH connection, each on a channel of its own.
"""

from __future__ import annotations

import errno
import logging
import secrets
import stat
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import paramiko

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Reader, Sink, Storage
from bulk_pipelines.storage.errors import Full, Missing, Permanent, Refused, SourceChanged, StorageError, Transient

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

SECONDS = 30.0
REQUEST = 32 << 10
"""What every server reads or writes in one request."""
PIECE = 4 << 20
"""Asked for at once, in many requests, so that distance costs little."""
IDLE = 4

log = logging.getLogger(__name__)


class SftpStorage(Storage):
    def __init__(self, address: Address, root: str, access: Access) -> None:
        self.address = address
        self.root = root.rstrip("/") or root
        if root.strip("/"):
            paths.check(root.strip("/"))
        self.login = access.login
        self.client: paramiko.SSHClient | None = None
        self.idle: list[paramiko.SFTPClient] = []
        self.folders: set[str] = set()
        """Those that are known to exist."""
        self.lock = threading.Lock()

    def url_of(self, key: str) -> str:
        return f"{self.url}/{quote(paths.check(key))}"

    @property
    def url(self) -> str:
        return f"{self.address.server}/{quote(self.root)}".rstrip("/")

    def path(self, key: str) -> str:
        if not key:
            return self.root or "."
        return f"{self.root.rstrip('/')}/{key}" if self.root else key

    @contextmanager
    def channel(self, url: str) -> Iterator[paramiko.SFTPClient]:
        """For a few requests; what they fail with is said of `url`."""
        with failures(url):
            channel = self.take()
            usable = False
            try:
                yield channel
                usable = True
            except OSError as error:  # an answer of the server, so the channel is fine
                usable = error.errno in {errno.ENOENT, errno.EACCES}
                raise
            except Permanent:
                usable = True
                raise
            finally:
                self.give(channel, usable)

    def take(self) -> paramiko.SFTPClient:
        with self.lock:
            while self.idle:
                channel = self.idle.pop()
                transport = self.client.get_transport() if self.client else None
                if transport and transport.is_active():
                    return channel
                channel.close()
            transport = self.client.get_transport() if self.client else None
            if not transport or not transport.is_active():
                self.client = self.connected()
                transport = self.client.get_transport()
        channel_opened = paramiko.SFTPClient.from_transport(transport) if transport else None
        if channel_opened is None:
            raise EOFError
        made = channel_opened.get_channel()
        if made:
            made.settimeout(SECONDS)
        return channel_opened

    def give(self, channel: paramiko.SFTPClient, usable: bool) -> None:
        with self.lock:
            if usable and len(self.idle) < IDLE:
                self.idle.append(channel)
                return
        channel.close()

    def close(self) -> None:
        with self.lock:
            client, self.client, self.idle = self.client, None, []
        if client:
            client.close()

    def connected(self) -> paramiko.SSHClient:
        client = paramiko.SSHClient()  # refuses servers whose key is not known
        try:
            client.load_system_host_keys(self.login.known_hosts or None)
        except OSError:
            raise InvalidInput("BULK_SFTP_KNOWN_HOSTS", f"{self.login.known_hosts} cannot be read") from None
        user = self.address.user or self.login.user
        if not user:
            raise InvalidInput("url", f"{self.address.server} names no user, and BULK_LOGIN_USER is not set")
        own = self.address.password if self.address.password is not None else self.login.password
        try:
            client.connect(
                self.address.host,
                self.address.port or 22,
                user,
                own,
                key_filename=self.login.key_file or None,
                timeout=SECONDS,
                banner_timeout=SECONDS,
                auth_timeout=SECONDS,
                allow_agent=False,
                look_for_keys=False,
            )
        except paramiko.AuthenticationException:
            which = (
                "these credentials"
                if own or self.login.key_file
                else "a login without credentials, and none were given"
            )
            raise Refused(f"{self.address.server} refuses {which}") from None
        except paramiko.BadHostKeyException:
            raise Refused(f"{self.address.server} shows another key than the known one") from None
        except paramiko.SSHException as error:
            if "known_hosts" in str(error):
                raise Refused(
                    f"{self.address.server} shows a key that is not known, see BULK_SFTP_KNOWN_HOSTS"
                ) from None
            raise
        return client

    def stat(self, key: str) -> Entry:
        with self.channel(self.url_of(key)) as channel:
            return self.entry(key, channel.stat(self.path(key)))

    def entry(self, key: str, found: paramiko.SFTPAttributes) -> Entry:
        if not stat.S_ISREG(found.st_mode or 0):
            raise Permanent(f"{self.url_of(key)} is a folder, not a file")
        size, seconds = found.st_size or 0, found.st_mtime or 0
        return Entry(key, size, datetime.fromtimestamp(seconds, UTC), f"{seconds:x}-{size:x}")

    @contextmanager
    def open(self, key: str, start: int = 0, stop: int | None = None, version: str | None = None) -> Iterator[Reader]:
        url = self.url_of(key)
        with failures(url):
            channel = self.take()
        try:
            with failures(url):
                entry = self.entry(key, channel.stat(self.path(key)))
                file = channel.open(self.path(key), "rb")
            if version is not None and entry.version != version:
                raise SourceChanged(f"{url} is no longer the version {version}: it was written to")
            end = entry.size if stop is None else min(stop, entry.size)
            yield Reader(entry, self.pieces(channel, file, entry, start, end))
        finally:
            channel.close()  # with answers possibly still on their way

    def pieces(
        self, channel: paramiko.SFTPClient, file: paramiko.SFTPFile, entry: Entry, start: int, end: int
    ) -> Generator[bytes, None, None]:
        url = self.url_of(entry.key)
        with failures(url):
            while start < end:
                stop = min(start + PIECE, end)
                piece = b"".join(
                    file.readv([(each, min(REQUEST, stop - each)) for each in range(start, stop, REQUEST)])
                )
                if len(piece) != stop - start:
                    raise SourceChanged(f"{url} became shorter while it was read")
                start = stop
                yield piece
            try:
                now = self.entry(entry.key, channel.stat(self.path(entry.key)))
            except FileNotFoundError:
                raise SourceChanged(f"{url} was removed while it was read") from None
        if now.version != entry.version:
            raise SourceChanged(f"{url} was written to while it was read")

    def entries(self, pattern: str = "**") -> Iterator[Entry]:
        wanted = paths.Pattern(pattern)
        for entry in self.found(wanted.folder, wanted):
            if wanted.matches(entry.key) and not paths.is_unfinished(entry.key):
                yield entry

    def found(self, first: str, wanted: paths.Pattern | None) -> Iterator[Entry]:
        """The files of a folder and of those in it that the pattern reaches, one folder's listing at a time."""
        with self.channel(self.url) as channel:
            channel.stat(self.path(""))
        waiting = [first]
        while waiting:
            folder = waiting.pop()
            try:
                with self.channel(self.url) as channel:
                    listing = list(channel.listdir_iter(self.path(folder)))
            except Missing:
                continue
            for each in listing:
                key = f"{folder}/{each.filename}" if folder else each.filename
                if problem := paths.fault(key):
                    log.warning("left out of the listing of %s: %r %s", self.url, key, problem)
                elif stat.S_ISREG(each.st_mode or 0):
                    yield self.entry(key, each)
                elif stat.S_ISDIR(each.st_mode or 0) and (wanted is None or wanted.reaches(key)):
                    waiting.append(key)

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        url = self.url_of(key)
        with failures(url):
            channel = self.take()
        written = paths.unfinished(key, secrets.token_hex(8))
        file: paramiko.SFTPFile | None = None
        published = False
        try:
            with failures(url):
                self.make_folder(channel, key)
                file = channel.open(self.path(written), "wbx")
                file.set_pipelined(True)

            sink = Sink(self.writer(file, url))
            yield sink
            with failures(url):
                file.close()
                size = channel.stat(self.path(written)).st_size
                if size != sink.size:
                    raise Transient(f"{url}: the server kept {size} of {sink.size} bytes")
                self.rename(channel, written, key)
            published = True
        finally:
            if file and not published:
                with suppress(OSError, EOFError, paramiko.SSHException):
                    file.close()  # the server must have let go of it before it is removed
                self.discard(written)
            self.give(channel, published)

    def writer(self, file: paramiko.SFTPFile, url: str) -> Callable[[Buffer], None]:
        def write(data: Buffer) -> None:
            with failures(url):
                file.write(bytes(data))

        return write

    def discard(self, key: str) -> None:
        try:
            self.delete(key)
        except StorageError as error:
            log.warning("an unfinished file may be left: %s", error)

    def make_folder(self, channel: paramiko.SFTPClient, key: str) -> None:
        parts = key.split("/")[:-1]
        for depth in range(len(parts)):
            folder = "/".join(parts[: depth + 1])
            if folder not in self.folders:
                with suppress(OSError):  # that it exists is no error
                    channel.mkdir(self.path(folder))
                self.folders.add(folder)

    def rename(self, channel: paramiko.SFTPClient, key: str, to: str) -> None:
        """By the extension that replaces, which OpenSSH and nearly all others have; others refuse to replace."""
        try:
            channel.posix_rename(self.path(key), self.path(to))
        except OSError as error:
            if error.errno is not None:
                raise
            channel.rename(self.path(key), self.path(to))

    def delete(self, *keys: str) -> None:
        for key in keys:
            with self.channel(self.url_of(key)) as channel, suppress(FileNotFoundError):
                channel.remove(self.path(key))

    def move(self, key: str, to: str) -> None:
        self.url_of(to)
        with self.channel(self.url_of(key)) as channel:
            self.entry(key, channel.stat(self.path(key)))
            if key != to:
                self.make_folder(channel, to)
                self.rename(channel, key, to)

    def sweep(self, before: datetime) -> int:
        swept = 0
        for entry in self.found("", None):
            if paths.is_unfinished(entry.key) and entry.modified and entry.modified < before:
                self.delete(entry.key)
                swept += 1
        return swept


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Errors of the connection and answers of the server, in the words of `errors`."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"{url} does not exist") from None
    except PermissionError:
        raise Refused(f"{url}: the server does not allow that") from None
    except UnicodeError:
        raise Permanent(f"{url}: the server sends names that are not UTF-8") from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        # The server's "failure" and a broken connection look alike.
        reason = getattr(error, "strerror", None) or str(error) or "the connection was closed"
        if getattr(error, "errno", None) == errno.ENOSPC or "space" in reason:
            raise Full(f"{url}: {reason}") from None
        raise Transient(f"{url}: the server cannot be reached, or it failed ({reason})") from None
