"""Every setting of the system, and the only place that reads the environment.

A setting is one line of one of the groups of `Settings`: its variable, its default and what it does; `variables` knows
how a text becomes a value. The groups are `installation`, `doors`, `telling`, `storage`, `keeping`, `distribution` and
`engine`. `places` says where files lie, and `addresses` where people reach pages. `docs/settings.md` is made from the
groups.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from bulk_pipelines.settings import places
from bulk_pipelines.settings.distribution import DistributionSettings
from bulk_pipelines.settings.doors import DoorSettings
from bulk_pipelines.settings.engine import EngineSettings
from bulk_pipelines.settings.installation import InstallationSettings
from bulk_pipelines.settings.keeping import KeepingSettings
from bulk_pipelines.settings.places import CHECKOUT, shipped
from bulk_pipelines.settings.storage import StorageSettings
from bulk_pipelines.settings.telling import TellingSettings
from bulk_pipelines.settings.variables import parsed

__all__ = ["CHECKOUT", "Description", "Settings", "current", "describe", "environment", "load", "shipped", "unknown"]


@dataclass(frozen=True)
class Settings(
    DistributionSettings,
    KeepingSettings,
    StorageSettings,
    TellingSettings,
    DoorSettings,
    InstallationSettings,
):
    """The settings of one process, one field for each. The groups stand here from the last to the first, because
    dataclasses take the fields of their bases in that order."""

    engine: EngineSettings = field(default_factory=EngineSettings)


@dataclass(frozen=True)
class Description:
    """What the documentation says about one setting."""

    name: str
    variable: str
    kind: str
    default: str
    doc: str


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings from these variables. A variable that is missing or empty means its default."""
    return Settings(**given(Settings, environ), engine=EngineSettings(**given(EngineSettings, environ)))


def given(group: type, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that these variables give to a group of settings."""
    values: dict[str, Any] = {}
    for each in declared(group):
        text = environ.get(each.metadata["variable"], "").strip()
        if text:
            values[each.name] = parsed(text, type(each.default), each.metadata)
        elif isinstance(each.default, Path):
            values[each.name] = places.project() / each.default
    return values


def declared(*groups: type) -> Iterator[Field[Any]]:
    """Yield the fields that are settings, of these groups or of all."""
    return (each for group in groups or (Settings, EngineSettings) for each in fields(group) if each.metadata)


def current() -> Settings:
    """Return the settings of this process."""
    return load(os.environ)


def secret(variable: str) -> str:
    """Return the value of a variable that a declaration names, because a secret does not stand in a file; empty text if
    it is not set. Settings cannot be read in this way: they hold the installation's own secrets."""
    return "" if variable.startswith("BULK_") else os.environ.get(variable, "")


def environment(**added: str) -> dict[str, str]:
    """Return the environment for a child process: that of this process, and what is added."""
    return {**os.environ, **added}


def unknown() -> list[str]:
    """Return the variables of this process that look like settings and are none, which most often means a
    misspelling."""
    known = {each.metadata["variable"] for each in declared()}
    return sorted(name for name in os.environ if name.startswith("BULK_") and name not in known)


def describe(*groups: type) -> list[Description]:
    """Describe the settings of these groups or of all, in the order of their classes."""
    return [
        Description(
            each.name,
            each.metadata["variable"],
            type(each.default).__name__ if not isinstance(each.default, Path) else "path",
            str(each.default),
            each.metadata["doc"],
        )
        for each in declared(*groups)
    ]
