"""Ctrl-C at a terminal: the command says at once that it cancels, and ends within five seconds, whatever
its job does."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.person import Person
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.web_server import WebServer, trickle

pytestmark = pytest.mark.long

HEADER = "email,name,role\n"
AT_ONCE, ENDS = 1.0, 5.0
"""Seconds until it is said, and until the command has ended."""


class Terminal:
    """A command that runs, and when it said what on its standard error."""

    def __init__(self, person: Person, *arguments: str) -> None:
        self.process = person.start(*arguments)
        self.said: list[tuple[float, str]] = []
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line))

    def interrupt(self) -> str:
        """Press Ctrl-C; return what the command printed, and how soon it did what it should."""
        pressed = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        output = self.process.stdout.read()
        code = self.process.wait(60)
        took = time.monotonic() - pressed
        self.listener.join()
        told = [moment for moment, line in self.said if line == "cancelling…\n"]
        assert told, self.said
        print(f"said after {told[0] - pressed:.2f} s, ended after {took:.2f} s")
        assert told[0] - pressed < AT_ONCE
        assert took < ENDS
        assert code == 1
        assert "CANCELLED" in output
        assert "Traceback" not in "".join(line for _, line in self.said)
        return output


@pytest.fixture
def person(tmp_path: Path, database_url: str) -> Iterator[Person]:
    found = Person(tmp_path, database_url)
    yield found
    # What the command left ends by itself.
    until(
        lambda: asked(found, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'bulk%%'") == 0,
        "all have left",
        90,
    )


def asked(person: Person, query: str) -> Any:
    with pool.single(person.environment["BULK_DATABASE_URL"], application="test") as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def users(folder: Path, rows: int) -> str:
    path = folder / "users.csv"
    path.write_text(HEADER + "".join(f"user{number}@example.org,Name,reader\n" for number in range(rows)))
    return str(path)


def begun(condition: Callable[[], bool], what: str) -> None:
    until(condition, what, 90)


def test_while_a_file_is_landed(person: Person) -> None:
    person.environment["BULK_ALLOW_PRIVATE_HTTP"] = "true"
    with WebServer() as web:
        web.routes["/users.csv"] = trickle(HEADER.encode(), b"a@example.org,A,reader\n", 0.05)
        terminal = Terminal(person, "import", f"{web.url}/users.csv", "--resource", "users")
        begun(lambda: any(path == "/users.csv" for path, _ in web.requests), "the file is being fetched")
        terminal.interrupt()
    assert asked(person, "SELECT count(*) FROM users") == 0


def test_while_records_are_loaded(person: Person, tmp_path: Path) -> None:
    terminal = Terminal(person, "import", users(tmp_path, 600_000), "--resource", "users")
    begun(lambda: asked(person, "SELECT count(*) FROM users") > 0, "rows are being loaded")
    terminal.interrupt()


def test_while_an_upsert_is_merged(person: Person, tmp_path: Path) -> None:
    """The statement that merges twenty thousand records takes a minute. Nothing of it stays."""
    with pool.single(person.environment["BULK_DATABASE_URL"], application="test") as connection:
        connection.execute(
            "CREATE FUNCTION tarry() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_sleep(0.001); RETURN new; END'"
        )
        connection.execute("CREATE TRIGGER tarry BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION tarry()")
    terminal = Terminal(person, "import", users(tmp_path, 30_000), "--resource", "users", "--mode", "upsert")
    merging = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%MERGE INTO%' AND application_name LIKE 'bulk%'"
    begun(lambda: asked(person, merging) > 0, "records are being merged")
    terminal.interrupt()
    assert asked(person, "SELECT count(*) FROM users") == 0
