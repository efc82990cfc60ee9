"""docs/storage.md says what the code does."""

import re

import pytest

from bulk_pipelines import settings
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.storage import addresses, compression, paths
from bulk_pipelines.storage.access import HttpAccess, S3Access
from bulk_pipelines.storage.s3 import storage

PAGE = (CHECKOUT / "docs" / "storage.md").read_text()
STORAGE = CHECKOUT / "bulk_pipelines_tests" / "integration" / "storage"
SUITE = "".join(path.read_text() for path in (STORAGE / "conformance").glob("*.py"))
OURS = ("BULK_S3", "BULK_LOGIN", "BULK_SFTP", "BULK_CA", "BULK_ALLOW", "BULK_HTTP", "BULK_LANDING")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_addresses_are_addresses_and_all_kinds_are_there() -> None:
    shown = re.findall(r"^\| `([^`]+)` \|", section("Addresses"), re.MULTILINE)
    kinds = {addresses.parse(url).scheme for url in shown}
    assert {f"{kind}://" for kind in kinds} | {"http://"} == set(re.findall(r"\w+://", addresses.KNOWN))


def test_the_settings_are_settings_and_all_of_the_storages_are_there() -> None:
    known = {each.variable for each in settings.describe()}
    named = set(re.findall(r"BULK_\w+", PAGE))
    assert named <= known
    assert {each for each in known if each.startswith(OURS)} <= named


@pytest.mark.parametrize("name", re.findall(r"`(test_\w+)`", PAGE))
def test_every_promise_has_its_test(name: str) -> None:
    assert f"def {name}(" in SUITE


def test_the_figures_are_those_of_the_code() -> None:
    assert f"{paths.LONGEST_KEY:,} bytes in all and {paths.LONGEST_SEGMENT} in a part" in PAGE
    assert f"{storage.PART * 10_000 // 10**9 // 10 * 10} GB" in PAGE
    assert f"from {compression.HARMLESS >> 20} MiB on" in PAGE
    assert "there may be five" in PAGE
    assert HttpAccess().redirects == 5
    assert "| three, within 20 s (obstore)" in PAGE
    assert S3Access().retries == 3
