"""A long line to a server: whatever goes over it, in either direction, takes half a round trip; to connect takes a
whole one.

    with slow_line(server.port, 0.020) as port: ...

It also relays the passive data connections of FTP: it tells the client ports of its own for them.
"""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

PASSIVE = re.compile(rb"(227 [^(]*\()127,0,0,1,(\d+),(\d+)(\))")


@contextmanager
def slow_line(port: int, round_trip: float) -> Iterator[int]:
    """Provide the port at which the server that listens at `port` is reached over the line."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    line = Line(round_trip)
    try:
        yield run(line.open(port))
    finally:
        run(line.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


class Line:
    def __init__(self, round_trip: float) -> None:
        self.round_trip = round_trip
        self.listeners: list[asyncio.Server] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    async def open(self, port: int, once: bool = False) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if once:
                listener.close()
                self.listeners.remove(listener)
            task = asyncio.create_task(self.relay(port, reader, writer))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

        listener = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=256)
        self.listeners.append(listener)
        opened: int = listener.sockets[0].getsockname()[1]
        return opened

    async def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.round_trip)  # to connect takes a whole round trip
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(self.pump(reader, back, False), self.pump(there, writer, True))
        finally:
            writer.close()
            back.close()

    async def pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, from_server: bool) -> None:
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=1_000)

        async def arrive() -> None:
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    with suppress(OSError):
                        target.write_eof()
                    return
                with suppress(OSError):
                    target.write(data)
                    await target.drain()

        arrival = asyncio.create_task(arrive())
        try:
            data = b"begun"
            while data:
                try:
                    data = await source.read(1 << 16)
                except OSError:
                    data = b""
                if from_server and (found := PASSIVE.search(data)):
                    opened = await self.open(int(found[2]) * 256 + int(found[3]), once=True)
                    told = b"%s127,0,0,1,%d,%d%s" % (found[1], opened >> 8, opened & 255, found[4])
                    data = data[: found.start()] + told + data[found.end() :]
                await under_way.put((loop.time() + self.round_trip / 2, data))
            await arrival
        finally:
            arrival.cancel()
