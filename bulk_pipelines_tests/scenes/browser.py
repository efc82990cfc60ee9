"""A person at the console: in a real browser, or as a client that keeps cookies and fills forms in."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Page

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.settings import CHECKOUT, environment
from bulk_pipelines_tests.scenes.api import NO_TLS, PATIENCE, Api
from bulk_pipelines_tests.scenes.waiting import until

JOB = re.compile(r".*/console/jobs/(J\w+)$")
FIELD = re.compile(r'name="token" value="([0-9a-f]{64})"')


class Visitor:
    """Somebody who logs in with a key, opens pages and sends their forms."""

    def __init__(self, api: Api, owner: str | None = None, scope: Scope = Scope.WRITE) -> None:
        self.client = httpx.Client(base_url=api.url, timeout=PATIENCE, verify=NO_TLS)
        if owner is not None:
            self.log_in(api.text(owner, scope))

    def log_in(self, key: str, place: str = "/console/jobs") -> httpx.Response:
        token = self.token("/console/login")
        return self.client.post("/console/login", data={"token": token, "key": key, "next": place})

    def open(self, place: str, **options: Any) -> httpx.Response:
        return self.client.get(place, **options)

    def begin(self, place: str) -> httpx.Response:
        """Open an answer that goes on for as long as somebody listens; return its beginning, or the whole refusal."""
        with self.client.stream("GET", place) as answer:
            if answer.headers["content-type"].startswith("text/event-stream"):
                answer._content = b""
            else:
                answer.read()
        return answer

    def token(self, place: str) -> str:
        """Return the token of the forms on a page."""
        found = FIELD.search(self.open(place).text)
        assert found, f"{place} has no form"
        return found[1]

    def send(self, place: str, data: dict[str, Any] | None = None, page: str | None = None) -> httpx.Response:
        """Send a form as its page has it."""
        return self.client.post(place, data={"token": self.token(page or place), **(data or {})})


def words(page: httpx.Response) -> str:
    """Return the text of a page without its tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def logged_in(
    browser: Browser, api: Api, owner: str = "root", scope: Scope = Scope.ADMIN, **options: Any
) -> BrowserContext:
    """Return a browser of somebody who is logged in."""
    context = browser.new_context(**options)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{api.url}/console/login")
    page.get_by_label("API key").fill(api.text(owner, scope))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/console/jobs")
    page.close()
    return context


def at_job(page: Page) -> str:
    """Wait for the page of a job, and return its key."""
    page.wait_for_url(JOB)
    match = JOB.match(page.url)
    assert match
    return match[1]


def served(url: str, port: int, folder: Path) -> "subprocess.Popen[bytes]":
    """Start the server as a process of its own, on a database without keys."""
    variables = {"BULK_DATABASE_URL": url, "BULK_HOME": str(folder / "home"), "BULK_API_PORT": str(port)}
    command = [sys.executable, "-m", "bulk_pipelines.cli", "api"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment(**variables), cwd=CHECKOUT, stdout=log, stderr=log)
    until(lambda: answers(port), "the API serves", 90)
    return process


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.TransportError:
        return False
