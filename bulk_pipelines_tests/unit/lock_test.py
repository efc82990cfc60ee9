"""The check of requirements.lock sees what would make an installation differ from pyproject.toml."""

import importlib.util
import tomllib
from types import ModuleType
from typing import Any

import pytest

from bulk_pipelines.settings import CHECKOUT

HASH = "--hash=sha256:" + "0" * 64


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_lock", CHECKOUT / ".ci" / "check_lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project(*dependencies: str) -> dict[str, Any]:
    return {"dependencies": list(dependencies), "optional-dependencies": {"dev": ["ruff>=1"]}}


def lock(*entries: str) -> str:
    return "\n".join(entries)


RUFF = f"ruff==1.2 \\\n    {HASH}"


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([RUFF], "click is not locked"),
        ([RUFF, f"click==7.9 \\\n    {HASH}"], "click>=8 is asked for and 7.9 is locked"),
        ([RUFF, "click==8.1"], "click has no hashes, or something else beside them"),
        (
            [RUFF, f"click==8.1 \\\n    {HASH} \\\n    --hash=md5:00"],
            "click has no hashes, or something else beside them",
        ),
        ([RUFF, f"click==8.1 \\\n    {HASH}", "--index-url https://example.org"], "is not name==version"),
        ([RUFF, f"click==8.1 \\\n    {HASH}", f"pip @ https://example.org/pip.whl {HASH}"], "is not name==version"),
    ],
)
def test_what_is_wrong_is_said(check: ModuleType, entries: list[str], complaint: str) -> None:
    found = check.problems(project("click>=8"), lock(*entries))
    assert len(found) == 1
    assert complaint in found[0]


def test_markers_and_several_versions_of_one_name(check: ModuleType) -> None:
    entries = [RUFF, f"Click==8.1 ; python_full_version < '3.12' \\\n    {HASH}", f"click==8.2 \\\n    {HASH}"]
    assert check.problems(project("click[extra]>=8; python_version > '3'"), lock(*entries)) == []


def test_the_real_lock(check: ModuleType) -> None:
    wanted = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert check.problems(wanted, (CHECKOUT / "requirements.lock").read_text()) == []
