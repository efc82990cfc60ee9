"""FTP with TLS, as today's servers want it."""

import ftplib
import socket
import ssl

SECONDS = 30.0


class SecureFTP(ftplib.FTP_TLS):
    """An FTP_TLS whose data connections resume the session of the control connection. Many servers insist on that."""

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
