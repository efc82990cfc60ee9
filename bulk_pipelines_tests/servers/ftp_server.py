"""An FTP server by pyftpdlib, as a process of its own: `ftp_server.py KIND FOLDER USER PASSWORD [CERTIFICATE KEY]`.

The kinds are: `plain`, which has no MLSD and MLST, and does not replace a file when another is renamed to its name;
`sizeless`, which has no SIZE either; `silent`, which, like vsftpd, shows a folder that it must not read as empty, and
says so only at the end; `crowded`, which allows two connections at a time; `explicit`, which wants TLS begun by AUTH
TLS; `implicit`, which has TLS from the first byte.
"""

import sys
from pathlib import Path
from typing import Any

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.exceptions import FilesystemError
from pyftpdlib.filesystems import AbstractedFS
from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer


class NeverReplaces(AbstractedFS):  # type: ignore[misc]
    def rename(self, src: str, dst: str) -> None:
        if Path(dst).exists():
            raise FilesystemError("there is such a file")
        super().rename(src, dst)


class PlainHandler(FTPHandler):  # type: ignore[misc]
    abstracted_fs = NeverReplaces
    proto_cmds: dict[str, Any] = {  # noqa: RUF012
        name: about for name, about in FTPHandler.proto_cmds.items() if name not in {"MLSD", "MLST"}
    }


class SizelessHandler(PlainHandler):
    proto_cmds: dict[str, Any] = {  # noqa: RUF012
        name: about for name, about in PlainHandler.proto_cmds.items() if name != "SIZE"
    }


class SilentHandler(PlainHandler):
    failed = False

    def ftp_LIST(self, path: str) -> Any:  # noqa: N802
        try:
            self.fs.listdir(path)
        except OSError:
            self.failed = True
            self.push_dtp_data(b"", cmd="LIST")
            return path
        return super().ftp_LIST(path)

    def respond(self, resp: str, **more: Any) -> None:
        if self.failed and resp.startswith("226"):
            self.failed = False
            resp = "226 Transfer done (but failed to open directory)."
        super().respond(resp, **more)


class ExplicitHandler(TLS_FTPHandler):  # type: ignore[misc]
    tls_control_required = True
    tls_data_required = True


class ImplicitHandler(TLS_FTPHandler):  # type: ignore[misc]
    tls_data_required = True

    def handle(self) -> None:
        self.secure_connection(self.ssl_context)

    def handle_ssl_established(self) -> None:
        super().handle()


HANDLERS: dict[str, Any] = {
    "plain": PlainHandler,
    "sizeless": SizelessHandler,
    "silent": SilentHandler,
    "crowded": PlainHandler,
    "explicit": ExplicitHandler,
    "implicit": ImplicitHandler,
}


def main(kind: str, folder: str, user: str, password: str, *tls: str) -> None:
    handler = HANDLERS[kind]
    handler.authorizer = DummyAuthorizer()
    handler.auth_failed_timeout = 0
    handler.authorizer.add_user(user, password, folder, perm="elradfmwMT")
    if tls:
        handler.certfile, handler.keyfile = tls
    server = FTPServer(("127.0.0.1", 0), handler)
    if kind == "crowded":
        server.max_cons_per_ip = 2
    print(server.address[1], flush=True)
    server.serve_forever(timeout=0.05, handle_exit=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
