"""How a look-up asks one provider, and how it reads the answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import jsonpath_rfc9535 as jsonpath
from rapidfuzz import fuzz, utils

from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines.processing.providers.client import Request
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.results import Candidate, share

METHODS = ("GET", "POST")
MOST_CANDIDATES = 100


@dataclass(frozen=True)
class Path:
    """A JSONPath, and what it was written as."""

    text: str
    query: jsonpath.JSONPathQuery

    @classmethod
    def parse(cls, place: str, text: str) -> Self:
        try:
            return cls(text, jsonpath.compile(text))
        except (jsonpath.JSONPathError, RecursionError) as error:
            raise InvalidInput(place, f"{text!r} is no JSONPath: {error}") from None

    def every(self, value: Any) -> list[Any]:
        return [node.value for node in self.query.finditer(value)] if isinstance(value, dict | list) else []

    def first(self, value: Any) -> Any:
        """Return what the path finds: nothing, one value, or a list of several."""
        found = self.every(value)
        return None if not found else found[0] if len(found) == 1 else found


@dataclass(frozen=True)
class Ask:
    """One way to ask one provider."""

    provider: str
    path: str
    method: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    candidates: Path
    id: Path | None
    name: Path | None
    score: Path | None
    score_scale: float
    """The score that the provider gives to its best."""
    compare: bool
    """Whether the likeness of the query and the candidate's name is the score, because the provider gives none."""
    answer: Mapping[str, Path]
    take_first: bool
    nothing: tuple[int, ...]

    @classmethod
    def parse(cls, fields: Fields) -> Self:
        with fields:
            method = fields.text("method", "GET")
            if method not in METHODS:
                raise InvalidInput(fields.at("method"), f"{method!r} is none of {', '.join(METHODS)}")
            ask = cls(
                provider=fields.text("provider"),
                path=fields.text("path", ""),
                method=method,
                params=fields.mapping("params"),
                headers=fields.mapping("headers"),
                body=fields.take("body"),
                candidates=Path.parse(fields.at("candidates"), fields.text("candidates", "$")),
                id=optional(fields, "id"),
                name=optional(fields, "name"),
                score=optional(fields, "score"),
                score_scale=fields.number("score_scale", 1.0, least=1e-9),
                compare=fields.flag("compare", False),
                answer={
                    key: Path.parse(f"{fields.at('answer')}.{key}", text)
                    for key, text in fields.mapping("answer").items()
                },
                take_first=fields.flag("take_first", False),
                nothing=tuple(fields.list_of("nothing")) or (404, 410),
            )
        ask.check(fields.place)
        return ask

    def check(self, place: str) -> None:
        for each in (self.path, *self.params.values(), *self.headers.values()):
            templates.columns_of(place, each)
        if "://" in self.path or self.path.startswith("/"):
            raise InvalidInput(f"{place}.path", "is relative to the provider's address")
        if self.body is not None and self.method == "GET":
            raise InvalidInput(f"{place}.body", "goes with the method POST")
        if self.compare and self.name is None:
            raise InvalidInput(f"{place}.compare", "needs the name of a candidate")
        if self.compare and self.score is not None:
            raise InvalidInput(f"{place}.compare", "takes the place of a score: name one of them")

    @property
    def columns(self) -> set[str]:
        written = [self.path, *self.params.values(), *self.headers.values()]
        within = templates.columns_within(self.body)
        return within | {name for each in written for name in templates.columns_of(self.provider, each)}

    def request(self, row: Mapping[str, Any]) -> Request | None:
        """Return the request for a row; None when the row has no value that it needs. A parameter or header without a
        value is left out."""
        path = templates.filled(self.path, row, lambda text: quote(text, safe=""))
        if path is None:
            return None
        if dots(path) > dots(self.path):
            raise Permanent(f"a value of the row would lead to another path of {self.provider}: it is . or ..")
        return Request(
            path=path,
            method=self.method,
            params=filled(self.params, row),
            headers={name: header_text(text) for name, text in filled(self.headers, row).items()},
            body=templates.filled_within(self.body, row),
            nothing=self.nothing,
        )

    def worth(self, answer: Any) -> Any:
        """Return the answer; None when it has no candidates, which means that there is nothing."""
        return answer if self.candidates.every(answer) else None

    def read(self, answer: Any, query: str) -> list[Candidate]:
        """Return the candidates of an answer."""
        found = self.candidates.every(answer)[:MOST_CANDIDATES]
        return [self.candidate(each, query) for each in found if each is not None]

    def candidate(self, value: Any, query: str) -> Candidate:
        name = text(self.name.first(value)) if self.name else ""
        return Candidate(
            id=text(self.id.first(value)) if self.id else "",
            name=name,
            score=likeness(query, name) if self.compare else self.scored(value),
            answer={key: path.first(value) for key, path in self.answer.items()},
        )

    def scored(self, value: Any) -> float | None:
        if self.score is None:
            return None
        score = self.score.first(value)
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise Transient(f"{self.provider} answered with the score {str(score)[:50]!r}, which is no number")
        return share(score, self.score_scale)


def question(ask: Ask, request: Request) -> str:
    """Return the text that stands for a request: equal requests have equal texts. The path to the candidates belongs to
    it, because it decides whether the answer is kept as nothing."""
    asked = vars(request) | {"nothing": list(request.nothing), "candidates": ask.candidates.text}
    return json.dumps(asked, sort_keys=True, ensure_ascii=False)


def optional(fields: Fields, name: str) -> Path | None:
    written = fields.optional(name)
    return None if written is None else Path.parse(fields.at(name), written)


def dots(path: str) -> int:
    """Return how many segments of a path are `.` or `..`: they lead elsewhere, and no quoting keeps them from it."""
    return sum(segment in (".", "..") for segment in path.split("/"))


def filled(given: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, str]:
    found = {name: templates.filled(template, row) for name, template in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def header_text(value: str) -> str:
    """Return a value as it may stand in a header: nothing in a row can begin another header."""
    return "".join(each if each.isprintable() and each.isascii() else "?" for each in value)


def text(value: Any) -> str:
    return templates.text_of(value[0] if isinstance(value, list) and value else value)


def likeness(query: str, name: str) -> float:
    """Return how alike two texts are, from 0 to 1; neither case nor the order of words matters."""
    return fuzz.token_sort_ratio(query, name, processor=utils.default_process) / 100
