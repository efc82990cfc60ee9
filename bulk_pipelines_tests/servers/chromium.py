"""A real browser: the Chromium of the system, driven by playwright. Where there is none, root installs it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["AXE", "Page", "installed", "started"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).parents[1] / "vendor" / "axe" / "axe.min.js"


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def installed() -> str | None:
    """Return the path of the browser, which is installed if that can be done here."""
    path = found()
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", NAMES[0]],
        ):
            subprocess.run(command, env=environment, capture_output=True, check=False)
        path = found()
    return path


@contextmanager
def started() -> Iterator[Browser]:
    path = installed()
    if path is None:
        pytest.skip("there is no Chromium here, and none could be installed: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()
