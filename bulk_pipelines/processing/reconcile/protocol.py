"""A service of the Reconciliation API: its manifest, and batches of queries in version 0.2 and in the draft of 1.0."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bulk_pipelines.errors import Permanent, Transient
from bulk_pipelines.processing.providers.asking import Call, Desk
from bulk_pipelines.processing.providers.client import Request
from bulk_pipelines.processing.results import Candidate, share

SHOWN = 100


class Version(StrEnum):
    STABLE = "0.2"
    DRAFT = "1.0-draft"


OLDER = "0.1"
"""A service that lists no versions speaks 0.1, whose batches have the form of 0.2."""


@dataclass(frozen=True)
class Service:
    provider: str
    name: str
    version: Version
    path: str
    """Where queries go, relative to the provider's address."""

    def fetch(self, queries: Sequence[str], call: Call) -> Mapping[str, Any]:
        """Ask a batch of queries, and return the candidates of each; None when there are none."""
        asked = [json.loads(each) for each in queries]
        if self.version is Version.STABLE:
            batch = {f"q{number}": each for number, each in enumerate(asked)}
            answer = call(Request(self.path, "POST", form={"queries": json.dumps(batch, ensure_ascii=False)}))
            found = [self.candidates(answer, name, "result") for name in batch]
        else:
            answer = call(Request(self.path, "POST", body={"queries": asked}))
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list) or len(results) != len(asked):
                raise self.nonsense("has no list of as many results as there were queries")
            found = [self.candidates(results, number, "candidates") for number in range(len(asked))]
        return {query: each or None for query, each in zip(queries, found, strict=True)}

    def candidates(self, answer: Any, at: Any, field: str) -> list[dict[str, Any]]:
        """Return the candidates of one query, each checked to be what the specification says."""
        try:
            given = answer[at][field]
        except (KeyError, TypeError, IndexError):
            raise self.nonsense(f"has no {field} of a query") from None
        if not isinstance(given, list):
            raise self.nonsense(f"has a {field} that is no list")
        return [self.checked(each) for each in given]

    def checked(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self.nonsense("has a candidate that is no object")
        for name in ("id", "name"):
            if not isinstance(given.get(name), str):
                raise self.nonsense(f"has a candidate whose {name} is no text")
        score = given.get("score")
        needed = self.version is Version.STABLE
        if isinstance(score, bool) or not (isinstance(score, int | float) or (score is None and not needed)):
            raise self.nonsense("has a candidate whose score is no number")
        if not isinstance(given.get("type") or [], list):
            raise self.nonsense("has a candidate whose type is no list")
        return given

    def nonsense(self, said: str) -> Transient:
        return Transient(
            f"{self.provider} answered with something that the Reconciliation API does not know: it {said}"
        )


def query(
    version: Version, text: str, *, entity_type: str, limit: int, properties: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return one query in the form of a version."""
    asked: dict[str, Any] = {"limit": limit}
    if entity_type:
        asked["type"] = entity_type
    if version is Version.STABLE:
        asked["query"] = text
        if properties:
            asked["properties"] = [{"pid": pid, "v": value} for pid, value in properties]
        return asked
    asked["conditions"] = [
        {"matchType": "name", "propertyValue": text},
        *({"matchType": "property", "propertyId": pid, "propertyValue": value} for pid, value in properties),
    ]
    return asked


def opened(desk: Desk, provider: str, path: str) -> Service:
    """Return the service, once its manifest has been read. A manifest is kept like every other answer, unless it is
    wrong."""

    def fetch(_: Sequence[str], call: Call) -> dict[str, Any]:
        manifest = call(Request(path))
        checked_manifest(provider, manifest)
        return {"manifest": manifest}

    answer = desk.ask(provider, ["manifest"], fetch, place=path)["manifest"].value
    name, version = checked_manifest(provider, answer)
    # The draft has a path of its own for queries; before it, they went where the manifest is.
    return Service(provider, name, version, f"{path}/match".lstrip("/") if version is Version.DRAFT else path)


def checked_manifest(provider: str, manifest: Any) -> tuple[str, Version]:
    """Return the service's name and the version to speak. Raise `Permanent`, with what is wrong, if there is none."""
    if not isinstance(manifest, dict):
        raise Permanent(f"{provider} is no reconciliation service: it answers without a manifest")
    name = manifest.get("name")
    if not isinstance(name, str):
        raise Permanent(f"the manifest of {provider} is wrong: it has no name")
    versions = manifest.get("versions", [OLDER])
    if not isinstance(versions, list) or not all(isinstance(each, str) for each in versions):
        raise Permanent(f"the manifest of {provider} is wrong: versions is no list of texts")
    wrong = []
    if Version.STABLE in versions or OLDER in versions:
        missing = [field for field in ("identifierSpace", "schemaSpace") if not isinstance(manifest.get(field), str)]
        if not missing:
            return name, Version.STABLE
        wrong.append(f"it has no {missing[0]}")
    if Version.DRAFT in versions:
        # A service of both versions may describe itself as the draft wants it, which is not as 0.2 does.
        view = manifest.get("view")
        if isinstance(view, dict) and isinstance(view.get("url"), str):
            return name, Version.DRAFT
        wrong.append("it has no view")
    if wrong:
        raise Permanent(f"the manifest of {provider} is wrong: {', '.join(wrong)}")
    raise Permanent(
        f"{provider} speaks {', '.join(versions)[:SHOWN]} of the Reconciliation API, not {', '.join(Version)}"
    )


def candidate(given: Mapping[str, Any], scale: float) -> Candidate:
    """Return a candidate as results have it. The service's own features are its evidence."""
    score = given.get("score")
    types = [each.get("id") if isinstance(each, dict) else each for each in given.get("type") or ()]
    features = given.get("features")
    return Candidate(
        given["id"],
        given["name"],
        None if score is None else share(score, scale),
        {"description": given.get("description"), "types": types, "match": bool(given.get("match"))},
        {
            str(each["id"]): each.get("value")
            for each in (features if isinstance(features, list) else ())
            if isinstance(each, dict) and "id" in each
        },
    )
