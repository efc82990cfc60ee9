"""The Reconciliation API's own schemas, and manifests as its specification has them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from bulk_pipelines.settings import CHECKOUT

FOLDER = CHECKOUT / "bulk_pipelines_tests" / "reconciliation"
VERSIONS = ("0.2", "1.0-draft")


@cache
def schemas(version: str) -> Registry[Any]:
    found = [json.loads(path.read_text()) for path in (FOLDER / version / "schemas").glob("*.json")]
    return Registry().with_resources(
        (each["$id"], Resource.from_contents(each, default_specification=DRAFT202012)) for each in found
    )


def check(version: str, name: str, value: Any) -> None:
    """Check a value by a schema of a version; what is wrong with it is an error that says what."""
    schema = json.loads((FOLDER / version / "schemas" / f"{name}.json").read_text())
    Draft202012Validator(schema, registry=schemas(version)).validate(value)


def manifests(version: str, kind: str) -> list[Path]:
    return sorted((FOLDER / version / "manifests" / kind).glob("*.json"))
