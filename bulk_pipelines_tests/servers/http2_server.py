"""A web server that speaks HTTP/2 and nothing else, as far as its clients agree to it in TLS."""

import json
import socket
import ssl
import threading
from types import TracebackType
from typing import Any, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded


class Http2Server:
    """Answers every request with the number of requests before it. `connections` has what each client has agreed to."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        tls.set_alpn_protocols(["h2"])
        self.tls = tls
        self.connections: list[str | None] = []
        self.paths: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.listener.getsockname()[1]}/"

    def serve(self) -> None:
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.speak, args=(plain,), daemon=True).start()

    def speak(self, plain: socket.socket) -> None:
        with self.tls.wrap_socket(plain, server_side=True) as stream:
            self.connections.append(stream.selected_alpn_protocol())
            spoken = H2Connection(H2Configuration(client_side=False))
            spoken.initiate_connection()
            stream.sendall(spoken.data_to_send())
            while data := stream.recv(65_536):
                for event in spoken.receive_data(data):
                    self.heard(spoken, event)
                stream.sendall(spoken.data_to_send())

    def heard(self, spoken: H2Connection, event: Any) -> None:
        if isinstance(event, RequestReceived):
            self.paths.append(dict(event.headers or ())[b":path"].decode())
        elif isinstance(event, StreamEnded):
            assert event.stream_id is not None
            spoken.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/json")])
            spoken.send_data(event.stream_id, json.dumps({"number": len(self.paths)}).encode(), end_stream=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.listener.close()
