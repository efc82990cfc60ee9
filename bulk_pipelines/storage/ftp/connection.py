"""One logged-in control connection to an FTP server. Its paths begin at the server's root.

`ftps://` is encrypted from the first byte, usually on port 990; `ftpes://` begins in the clear and asks for TLS before
the login, usually on port 21.
"""

from __future__ import annotations

import ftplib
import secrets
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from bulk_pipelines.storage import tls
from bulk_pipelines.storage.errors import Refused
from bulk_pipelines.storage.ftp.errors import NO_COMMAND, NO_SUCH, NOT_NOW, NotListed, code, failures, said
from bulk_pipelines.storage.ftp.listing import Listed, facts, listed, moment
from bulk_pipelines.storage.ftp.tls import SECONDS, SecureFTP
from bulk_pipelines.storage.paths import unfinished

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from bulk_pipelines.storage.access import Access
    from bulk_pipelines.storage.addresses import Address

PORTS = {"ftp": 21, "ftpes": 21, "ftps": 990}
PIECE = 1 << 18


class Connection:
    def __init__(self, address: Address, access: Access) -> None:
        if address.scheme == "ftp":
            self.ftp = ftplib.FTP()  # noqa: S321 - the address asks for it
        else:
            self.ftp = SecureFTP(tls.context(access.ca_file), implicit=address.scheme == "ftps")
        self.ftp.encoding = "utf-8"
        self.between = True
        """Whether the connection is between transfers, and so ready for the next command."""
        self.goodbye = ""
        """What the server answered at the end of the last transfer."""
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
        except ftplib.error_perm:  # the server is older than that command
            features = ""
        self.features = {line.strip().partition(" ")[0] for line in features.splitlines()}
        if "UTF8" in self.features:
            with suppress(ftplib.Error):
                self.ftp.sendcmd("OPTS UTF8 ON")
        self.home = self.ftp.pwd().rstrip("/")
        """The folder that the server puts the user in. Commands name files by paths from the root, so that the working
        directory never matters."""

    def close(self) -> None:
        self.ftp.close()

    def alive(self) -> bool:
        """Whether the connection still works. Servers close connections that were idle for long."""
        try:
            self.ftp.voidcmd("NOOP")
        except (OSError, EOFError, ftplib.Error):
            return False
        return True

    def answer(self, command: str) -> str | None:
        """Send a command about a file, and return the server's answer; None when it says that there is no such file or
        command."""
        try:
            return self.ftp.sendcmd(command)
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) in NO_SUCH | NO_COMMAND:
                return None
            raise

    def received(self, data: socket.socket) -> Iterator[bytes]:
        """Yield the bytes that a transfer sends, until the server confirms its end."""
        try:
            while piece := data.recv(PIECE):
                yield piece
            self.end(data)
        finally:
            data.close()

    def begin(self, command: str, start: int = 0) -> socket.socket:
        """Begin a transfer. Until it ends, this connection can send no other command."""
        self.between = False
        try:
            return self.ftp.transfercmd(command, start or None)
        except ftplib.Error:
            self.between = True
            raise

    def end(self, data: socket.socket) -> None:
        """Close the data connection and read the server's answer to the transfer."""
        goodbye(data)
        data.close()
        try:
            self.goodbye = self.ftp.voidresp()
        except ftplib.Error:
            self.between = True
            raise
        self.between = True

    def modified(self, path: str) -> datetime | None:
        try:
            answer = self.answer(f"MDTM {path}")
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) not in NOT_NOW:
                raise
            return None
        return moment(answer[4:]) if answer else None

    def stat(self, path: str) -> Listed | None:
        """Return what the server tells of one path, without listing its folder; None when it refuses, for whatever
        reason."""
        if "MLST" in self.features:
            lines = (self.answer(f"MLST {path}") or "").splitlines()
            return next((facts(line) for line in lines if line.startswith(" ")), None)
        answer = self.answer(f"SIZE {path}")
        return Listed(path, "file", int(answer[4:]), self.modified(path)) if answer else None

    def listing(self, path: str) -> Iterator[list[Listed]]:
        """Yield what lies in a folder, as it arrives. Raise `NotListed` if there is no such folder, or it must not be
        read."""
        read: Callable[[str], Listed | None]
        if "MLST" in self.features:
            read, command = facts, f"MLSD {path}"
        elif self.answer(f"CWD {path}"):  # some servers do not take a name with a blank or a bracket in LIST
            read, command = listed, "LIST -a"
        else:
            raise NotListed("there is no way into it")
        rest = b""
        try:
            for piece in self.received(self.begin(command)):
                *lines, rest = (rest + piece).split(b"\n")
                yield entries_in(lines, read)
        except (ftplib.error_perm, ftplib.error_temp) as error:
            if code(error) in NO_SUCH | NOT_NOW:
                raise NotListed(said(error), isinstance(error, ftplib.error_temp)) from None
            raise
        yield entries_in([rest], read)
        if "failed to open" in self.goodbye:  # vsftpd says this, as a success, after listing what it must not read
            raise NotListed(f"FTP answered {self.goodbye[:100]}")

    def rename(self, path: str, to: str) -> None:
        """Rename a file. If there is a file of the new name, it is replaced."""
        try:
            self.ftp.rename(path, to)
        except ftplib.error_perm:
            # Some servers do not replace files. On these, no file has the name for a moment; the old one is never lost.
            if not self.answer(f"SIZE {to}"):
                raise
            aside = unfinished(to, secrets.token_hex(8))
            self.ftp.rename(to, aside)
            try:
                self.ftp.rename(path, to)
            except ftplib.Error:
                self.ftp.rename(aside, to)
                raise
            self.ftp.delete(aside)


def entries_in(lines: list[bytes], read: Callable[[str], Listed | None]) -> list[Listed]:
    found = (read(line.removesuffix(b"\r").decode(errors="surrogateescape")) for line in lines if line.strip(b"\r"))
    return [each for each in found if each and each.name not in {".", ".."}]


def goodbye(data: socket.socket) -> None:
    if isinstance(data, ssl.SSLSocket):
        with suppress(OSError, ValueError):  # many servers just close
            data.unwrap()
