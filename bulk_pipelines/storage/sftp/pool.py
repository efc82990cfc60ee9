"""The connection to one SSH server. Operations share it, each on a channel of its own. Idle channels are used again."""

from __future__ import annotations

import errno
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko

from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines.storage.errors import Full, Missing, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bulk_pipelines.storage.access import LoginAccess
    from bulk_pipelines.storage.addresses import Address

SECONDS = 30.0
IDLE = 4


class Pool:
    def __init__(self, address: Address, login: LoginAccess) -> None:
        self.address = address
        self.login = login
        self.client: paramiko.SSHClient | None = None
        self.idle: list[paramiko.SFTPClient] = []
        self.lock = threading.Lock()

    @contextmanager
    def channel(self, url: str) -> Iterator[paramiko.SFTPClient]:
        """Lend a channel for a few requests. Their errors name `url`."""
        with failures(url):
            channel = self.take()
            usable = False
            try:
                yield channel
                usable = True
            except OSError as error:  # after these answers of the server, the channel is fine
                usable = error.errno in {errno.ENOENT, errno.EACCES}
                raise
            except Permanent:
                usable = True
                raise
            finally:
                self.give(channel, usable)

    def take(self) -> paramiko.SFTPClient:
        with self.lock:
            transport = self.client.get_transport() if self.client else None
            if transport is None or not transport.is_active():
                self.idle = []
                self.client = self.connected()
                transport = self.client.get_transport()
            if self.idle:
                return self.idle.pop()
        channel = paramiko.SFTPClient.from_transport(transport) if transport else None
        socket = channel.get_channel() if channel else None
        if channel is None or socket is None:
            raise EOFError
        socket.settimeout(SECONDS)
        return channel

    def give(self, channel: paramiko.SFTPClient, usable: bool) -> None:
        with self.lock:
            if usable and len(self.idle) < IDLE:
                self.idle.append(channel)
                return
        self.end(channel)

    def end(self, channel: paramiko.SFTPClient) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):  # a channel of a broken connection cannot be closed
            channel.close()

    def close(self) -> None:
        with self.lock:
            client, self.client, self.idle = self.client, None, []
        if client:
            client.close()

    def connected(self) -> paramiko.SSHClient:
        server = self.address.server
        user = self.address.user or self.login.user
        if not user:
            raise InvalidInput("url", f"{server} names no user, and BULK_LOGIN_USER is not set")
        own = self.address.password if self.address.password is not None else self.login.password
        key_file = self.login.key_file or None
        if key_file and not Path(key_file).is_file():
            raise InvalidInput("BULK_SFTP_KEY_FILE", f"{key_file} does not exist")
        client = paramiko.SSHClient()  # it refuses servers whose key is not known
        try:
            client.load_system_host_keys(self.login.known_hosts or None)
        except OSError:
            raise InvalidInput("BULK_SFTP_KNOWN_HOSTS", f"{self.login.known_hosts} cannot be read") from None
        try:
            client.connect(
                self.address.host,
                self.address.port or 22,
                user,
                own or None if key_file else own,
                key_filename=key_file,
                timeout=SECONDS,
                banner_timeout=SECONDS,
                auth_timeout=SECONDS,
                allow_agent=False,
                look_for_keys=False,
            )
        except BaseException as error:
            client.close()
            if isinstance(error, paramiko.SSHException):
                raise self.refusal(error, given=bool(own or key_file)) from None
            raise
        return client

    def refusal(self, error: paramiko.SSHException, given: bool) -> Exception:
        server = self.address.server
        if isinstance(error, paramiko.AuthenticationException):
            which = "these credentials" if given else "a login without credentials, and none were given"
            return Refused(f"{server} refuses {which}")
        if isinstance(error, paramiko.BadHostKeyException):
            return Refused(f"{server} shows another key than the one that is known")
        if "known_hosts" in str(error):
            return Refused(f"{server} shows a key that is not known, see BULK_SFTP_KNOWN_HOSTS")
        return error


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Translate errors of the connection, and refusals of the server, into the errors of `errors`."""
    try:
        yield
    except FileNotFoundError:
        raise Missing(f"{url} does not exist") from None
    except PermissionError:
        raise Refused(f"{url}: the server does not allow that") from None
    except UnicodeError:
        raise Permanent(f"{url}: the server sends names that are not UTF-8") from None
    except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError) as error:
        # The server's "failure" and a broken connection look alike.
        reason = getattr(error, "strerror", None) or str(error) or "the connection was closed"
        if getattr(error, "errno", None) == errno.ENOSPC or "space" in reason:
            raise Full(f"{url}: {reason}") from None
        raise Transient(f"{url}: the server cannot be reached, or it failed ({reason})") from None
