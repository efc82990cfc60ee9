"""An SFTP server by paramiko: `sftp_server.py KIND FOLDER USER PASSWORD HOST_KEY`.

It tells the names of files as the bytes that they are, and refuses what its user must not read; rclone's server changes
names, and shows folders that must not be read as empty. There are these kinds: `plain` says why it refuses something;
`vague` says "failure" whatever the reason, as some servers do; `brief` sends fewer bytes than it is asked for; `holey`
takes files, and refuses one piece of each.
"""

import errno
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import SFTP_FAILURE, SFTP_OK, SFTP_PERMISSION_DENIED


class Login(paramiko.ServerInterface):
    def __init__(self, user: str, password: str) -> None:
        self.known = user, password

    def check_auth_password(self, username: str, password: str) -> int:
        return AUTH_SUCCESSFUL if (username, password) == self.known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED


class BriefHandle(paramiko.SFTPHandle):
    def read(self, offset: int, length: int) -> Any:
        return super().read(offset, min(length, 1000))


class HoleyHandle(paramiko.SFTPHandle):
    def write(self, offset: int, data: Any) -> Any:
        return SFTP_FAILURE if 0 < offset < 100_000 else super().write(offset, data)


class Folder(paramiko.SFTPServerInterface):
    def __init__(self, server: paramiko.ServerInterface, folder: str, kind: str) -> None:
        super().__init__(server)
        self.folder = folder
        self.kind = kind

    def place(self, path: str) -> Path:
        return Path(self.folder + str(self.canonicalize(path)))

    def refusal(self, error: OSError) -> int:
        return SFTP_FAILURE if self.kind == "vague" else paramiko.SFTPServer.convert_errno(error.errno or errno.EIO)

    def list_folder(self, path: str) -> Any:
        try:
            found = []
            for each in self.place(path).iterdir():
                about = paramiko.SFTPAttributes.from_stat(each.lstat())
                about.filename = os.fsencode(each.name)  # type: ignore[assignment] # bytes are sent as they are
                found.append(about)
        except OSError as error:
            return self.refusal(error)
        return found

    def stat(self, path: str) -> Any:
        try:
            return paramiko.SFTPAttributes.from_stat(self.place(path).stat())
        except OSError as error:
            return self.refusal(error)

    lstat = stat

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> Any:
        if flags & (os.O_WRONLY | os.O_RDWR):
            if self.kind != "holey":
                return SFTP_PERMISSION_DENIED
            holey = HoleyHandle(flags)
            holey.writefile = self.place(path).open("xb")  # type: ignore[attr-defined]
            return holey
        try:
            handle = (BriefHandle if self.kind == "brief" else paramiko.SFTPHandle)(flags)
            handle.readfile = self.place(path).open("rb")  # type: ignore[attr-defined]
        except OSError as error:
            return self.refusal(error)
        return handle

    def rename(self, oldpath: str, newpath: str) -> int:
        self.place(oldpath).rename(self.place(newpath))
        return SFTP_OK

    posix_rename = rename

    def remove(self, path: str) -> int:
        self.place(path).unlink()
        return SFTP_OK


def serve(connection: socket.socket, host_key: paramiko.PKey, login: Login, folder: str, kind: str) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(host_key)
    transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Folder, folder, kind)
    transport.start_server(server=login)


def main(kind: str, folder: str, user: str, password: str, host_key: str) -> None:
    key = paramiko.Ed25519Key.from_private_key_file(host_key)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            arguments = connection, key, Login(user, password), folder, kind
            threading.Thread(target=serve, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
