"""Load for a server: so many keep-alive clients that ask for one thing, each again as soon as it was answered. It runs
in a process of its own (`python -m benchmarks.load`), and does as little as it can for each answer."""

import asyncio
import re
import subprocess
import sys

LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Client(asyncio.Protocol):
    """One connection that asks again and again."""

    answers = 0

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        length = LENGTH.search(self.received)
        if head < 0 or length is None or len(self.received) < head + 4 + int(length[1]):
            return
        assert self.received.startswith(b"HTTP/1.1 200"), self.received
        self.received = b""
        Client.answers += 1
        self.transport.write(self.request)


async def run(port: int, request: bytes, clients: int, seconds: float) -> float:
    """Return how many requests a second were answered."""
    loop = asyncio.get_running_loop()
    for _ in range(clients):
        await loop.create_connection(lambda: Client(request), "127.0.0.1", port)
    await asyncio.sleep(1.0)
    before, began = Client.answers, loop.time()
    await asyncio.sleep(seconds)
    return (Client.answers - before) / (loop.time() - began)


def measured(url: str, path: str, headers: dict[str, str], clients: int, seconds: float) -> float:
    """Return how many requests a second a server answers, as a process of its own measures it."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "127.0.0.1", **headers}.items())
    request = f"GET {path} HTTP/1.1\r\n{lines}\r\n"
    port = url.rpartition(":")[2]
    command = [sys.executable, "-m", "benchmarks.load", port, request, str(clients), str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    port, request, clients, seconds = sys.argv[1:]
    print(asyncio.run(run(int(port), request.encode(), int(clients), float(seconds))))
