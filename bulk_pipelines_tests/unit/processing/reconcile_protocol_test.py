"""What the client makes of manifests, and what it asks, by the specification's own examples and schemas."""

import json
from pathlib import Path

import jsonschema
import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.processing.reconcile import protocol
from bulk_pipelines.processing.reconcile.protocol import Version
from bulk_pipelines_tests.scenes.reconciliation import VERSIONS, check, manifests

USELESS = {"godot-missing-identifierSpace", "godot-missing-view"}
"""What a client cannot work with. The other wrong manifests are wrong in what this client does not use, or are those of
version 0.1, which asks as 0.2 does."""
WITHOUT_SPACES = {"missing-version", "old-version"}


@pytest.mark.parametrize(
    ("version", "path"), [(version, path) for version in VERSIONS for path in manifests(version, "valid")]
)
def test_every_valid_manifest_is_understood(version: str, path: Path) -> None:
    manifest = json.loads(path.read_text())
    if "authentication" not in manifest:  # its schema is that of another specification
        check(version, "manifest", manifest)
    name, spoken = protocol.checked_manifest("here", manifest)
    assert name == manifest["name"]
    assert spoken == version


@pytest.mark.parametrize(
    ("version", "path"), [(version, path) for version in VERSIONS for path in manifests(version, "invalid")]
)
def test_a_manifest_that_is_of_no_use_is_refused(version: str, path: Path) -> None:
    manifest = json.loads(path.read_text())
    refused = path.stem in USELESS or (version == "1.0-draft" and path.stem in WITHOUT_SPACES)
    if "authentication" not in manifest:
        with pytest.raises(jsonschema.ValidationError):
            check(version, "manifest", manifest)
    if refused:
        with pytest.raises(Permanent):
            protocol.checked_manifest("here", manifest)
    else:
        protocol.checked_manifest("here", manifest)


@pytest.mark.parametrize("entity_type", ["", "Q5"])
@pytest.mark.parametrize("properties", [[], [("P27", "Q183"), ("P569", "1815")]])
def test_what_the_client_asks_is_what_the_schemas_want(entity_type: str, properties: list[tuple[str, str]]) -> None:
    def asked(version: Version) -> object:
        return protocol.query(version, "Ada", entity_type=entity_type, limit=5, properties=properties)

    check("0.2", "reconciliation-query-batch", {"q0": asked(Version.STABLE)})
    check("1.0-draft", "reconciliation-query-batch", {"queries": [asked(Version.DRAFT)]})
