"""One logged-in control connection to an FTP server, and what its answers mean.

`ftps://` is encrypted from the first byte, usually on port 990; `ftpes://` begins in the clear and asks for TLS before
the login, usually on port 21.
"""

from __future__ import annotations

import ftplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from bulk_pipelines.storage import tls
from bulk_pipelines.storage.errors import Full, Permanent, Refused, StorageError, Transient

if TYPE_CHECKING:
    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

SECONDS = 30.0
NO_SUCH = {450, 501, 550, 551, 553}
"""How servers say that there is no such file; they say other things by the same numbers."""
PORTS = {"ftp": 21, "ftpes": 21, "ftps": 990}
PIECE = 1 << 18


class SecureFTP(ftplib.FTP_TLS):
    """FTP_TLS, whose data connections resume the session of the control connection: many servers insist on it."""

    def __init__(self, context: ssl.SSLContext, implicit: bool) -> None:
        super().__init__(context=context)
        self.implicit = implicit

    def connect(
        self, host: str = "", port: int = 0, timeout: float = SECONDS, source_address: tuple[str, int] | None = None
    ) -> str:
        if not self.implicit:
            return super().connect(host, port, timeout, source_address)
        self.host, self.port, self.timeout = host, port, timeout
        plain = socket.create_connection((host, port), timeout, source_address)
        try:
            self.af = plain.family
            self.sock = self.context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome = self.getresp()
        return self.welcome

    def auth(self) -> str:
        return "" if self.implicit else super().auth()

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        plain, size = ftplib.FTP.ntransfercmd(self, cmd, rest)  # noqa: S321 - the plain half of FTP_TLS
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            return self.context.wrap_socket(plain, server_hostname=self.host, session=self.sock.session), size
        except BaseException:
            plain.close()
            raise


class Connection:
    def __init__(self, address: Address, access: Access) -> None:
        if address.scheme == "ftp":
            self.ftp = ftplib.FTP()  # noqa: S321 - the address asks for it
        else:
            self.ftp = SecureFTP(tls.context(access.ca_file), implicit=address.scheme == "ftps")
        self.ftp.encoding = "utf-8"
        self.between = True
        """Between transfers: usable for the next command."""
        try:
            with failures(address.server):
                self.log_in(address, access)
        except BaseException:
            self.close()
            raise

    def log_in(self, address: Address, access: Access) -> None:
        self.ftp.connect(address.host, address.port or PORTS[address.scheme], SECONDS)
        user = address.user or access.login.user or "anonymous"
        own = address.password if address.password is not None else access.login.password
        try:
            self.ftp.login(user, own or ("guest@" if user == "anonymous" else ""))
        except ftplib.error_perm as error:
            which = "these credentials" if own else "a login without a password, and none was given"
            raise Refused(f"{address.server} refuses {which} (FTP answered {str(error)[:3]})") from None
        if isinstance(self.ftp, SecureFTP):
            try:
                self.ftp.prot_p()
            except ftplib.error_perm:
                raise Refused(f"{address.server} would send files unencrypted: it refuses PROT P") from None
        self.ftp.voidcmd("TYPE I")
        try:
            features = self.ftp.sendcmd("FEAT").upper()
        except ftplib.error_perm:  # older than that command
            features = ""
        self.features = {line.strip().partition(" ")[0] for line in features.splitlines()}
        if "UTF8" in self.features:
            with suppress(ftplib.Error):
                self.ftp.sendcmd("OPTS UTF8 ON")
        self.home = self.ftp.pwd().rstrip("/")
        """Commands name files from the root, so that the working directory never matters."""

    def close(self) -> None:
        self.ftp.close()

    def alive(self) -> bool:
        """Servers close connections that were idle for long."""
        try:
            self.ftp.voidcmd("NOOP")
        except (OSError, EOFError, ftplib.Error):
            return False
        return True

    def answer(self, command: str) -> str | None:
        """The server's answer to a question about a file; None when it says that there is no such file or command."""
        try:
            return self.ftp.sendcmd(command)
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) in NO_SUCH | {500, 502, 504}:
                return None
            raise

    def received(self, data: socket.socket) -> Iterator[bytes]:
        """What a transfer sends us, to the end that the server confirms."""
        try:
            while piece := data.recv(PIECE):
                yield piece
            self.end(data)
        finally:
            data.close()

    def begin(self, command: str, start: int = 0) -> socket.socket:
        """Begin a transfer; until its end, nothing else can be asked on this connection."""
        self.between = False
        try:
            return self.ftp.transfercmd(command, start or None)
        except ftplib.Error:
            self.between = True
            raise

    def end(self, data: socket.socket) -> None:
        """Close the data connection and hear what the server makes of the transfer."""
        goodbye(data)
        data.close()
        try:
            self.ftp.voidresp()
        except ftplib.Error:
            self.between = True
            raise
        self.between = True


def goodbye(data: socket.socket) -> None:
    if isinstance(data, ssl.SSLSocket):
        with suppress(OSError, ValueError):  # many servers just close
            data.unwrap()


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Errors of the connection and answers of the server, in the words of `errors`."""
    try:
        yield
    except StorageError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{url}: the server's certificate is not trusted ({error.verify_message}), see BULK_CA_FILE"
        ) from None
    except ssl.SSLError as error:
        hint = ", or the other one of ftps:// and ftpes:// is meant" if error.reason == "WRONG_VERSION_NUMBER" else ""
        raise Transient(f"{url}: TLS failed ({error.reason}){hint}") from None
    except ftplib.Error as error:
        raise error_of(error, url) from None
    except UnicodeError:
        raise Permanent(f"{url}: the server sends names that are not UTF-8") from None
    except (OSError, EOFError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "the connection was closed"
        raise Transient(f"{url}: the server cannot be reached, or the connection to it broke ({reason})") from None


def error_of(error: ftplib.Error, url: str) -> StorageError:
    number = code(error)
    said = f"{url}: FTP answered {str(error).splitlines()[0][:100]}"
    if number in {452, 552}:
        return Full(said)
    if number in {331, 332, 430, 530, 532, 534}:
        return Refused(said)
    return Permanent(said) if 500 <= number < 600 else Transient(said)


def code(error: ftplib.Error) -> int:
    found = re.match(r"\d{3}", str(error))
    return int(found[0]) if found else 0
