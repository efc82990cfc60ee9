"""Whether requirements.lock still answers pyproject.toml: every requirement is locked, with hashes and no address."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; (?P<marker>.+))?$")
HASH = re.compile(r"^--hash=sha256:[0-9a-f]{64}$")


def problems(project: dict[str, Any], lock: str) -> list[str]:
    """One sentence for each thing that is wrong."""
    found = []
    locked: dict[str, list[str]] = {}
    for entry in lock.replace("\\\n", " ").strip().splitlines():
        pin, *hashes = re.split(r" +(?=--hash=)", entry.strip())
        match = LOCKED.match(pin.strip())
        if match is None:
            found.append(f"{pin[:60]!r} is not name==version")
            continue
        locked.setdefault(canonicalize_name(match["name"]), []).append(match["version"])
        if not hashes or not all(HASH.match(each.strip()) for each in hashes):
            found.append(f"{match['name']} has no hashes, or something else beside them")
    extras = project.get("optional-dependencies", {}).values()
    for text in [*project["dependencies"], *(each for extra in extras for each in extra)]:
        requirement = Requirement(text)
        versions = locked.get(canonicalize_name(requirement.name), [])
        if not versions:
            found.append(f"{requirement.name} is not locked")
        elif not all(requirement.specifier.contains(version, prereleases=True) for version in versions):
            found.append(f"{text} is asked for and {', '.join(versions)} is locked")
    return found


if __name__ == "__main__":
    wrong = problems(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], (ROOT / "requirements.lock").read_text()
    )
    for line in wrong:
        print(f"requirements.lock: {line}")
    if wrong:
        sys.exit("requirements.lock does not answer pyproject.toml: make lock")
    print("requirements.lock answers pyproject.toml")
