"""Wikimedia's interfaces for tests and benchmarks, over entities that are given: search, entities, titles and SPARQL.

It enforces what the real ones publish: requests by minute and at once over all of them, the User-Agent with a contact,
`maxlag`, fifty titles or ids, three hundred characters of a search. Its search is a plain one: words are found in
labels, aliases and descriptions, phrases in their order, and what is rare weighs more. It knows nothing of what is
right.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said, Window

PER_MINUTE, AT_ONCE = 200, 3
MOST_TITLES, MOST_SEARCHED, LONGEST_SEARCH = 50, 500, 300
SPARQL_SECONDS = 0.3


@dataclass(frozen=True)
class Item:
    """What the server knows of an entity."""

    id: str
    label: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    claims: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values by properties: a text, an item's id as `Q…`, or a date as `+1815-12-10`."""


@dataclass
class Wikimedia:
    items: Sequence[Item]
    redirects: Mapping[str, str] = field(default_factory=dict)
    """Titles of the wiki that lead to others."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The metadata of pictures by their titles."""
    merged: Mapping[str, str] = field(default_factory=dict)
    """Items that are others now."""
    lag: float = 0.0

    @cached_property
    def by_id(self) -> dict[str, Item]:
        return {each.id: each for each in self.items}

    @cached_property
    def pages(self) -> dict[str, str]:
        """The items of a wiki's pages by title: of equal names, all have their description behind."""
        count = Counter(each.label for each in self.items)
        return {
            each.label if count[each.label] == 1 else f"{each.label} ({each.description})": each.id
            for each in self.items
        }

    @cached_property
    def named(self) -> dict[str, list[str]]:
        found = defaultdict(list)
        for each in self.items:
            for name in dict.fromkeys((each.label, *each.aliases)):
                found[name].append(each.id)
        return found

    @cached_property
    def texts(self) -> list[list[list[str]]]:
        """The words of each field of each item."""
        return [[words(text) for text in (each.label, *each.aliases, each.description)] for each in self.items]

    @cached_property
    def postings(self) -> dict[str, set[int]]:
        found = defaultdict(set)
        for number, fields in enumerate(self.texts):
            for each in fields:
                for word in each:
                    found[word].add(number)
        return found

    def answer(self, call: Call) -> Any:
        form = parse_qs(call.body.decode(), keep_blank_values=True) if call.body else {}
        asked = {**call.params, **{name: values[-1] for name, values in form.items()}}
        agent = {name.lower(): value for name, value in call.headers.items()}.get("user-agent", "")
        if "@" not in agent and "http" not in agent:
            return Said(b"Please set a user-agent and respect our robot policy", 403, {"Content-Type": "text/plain"})
        if call.path.endswith("/sparql"):
            return self.sparql(asked["query"])
        if "maxlag" in asked and self.lag > float(asked["maxlag"]):
            error = {"code": "maxlag", "info": f"Waiting for a database server: {self.lag} seconds lagged."}
            return Said({"error": error | {"lag": self.lag}}, 200, {"Retry-After": "5"})
        if asked["action"] == "wbgetentities":
            return self.entities(asked)
        if "generator" in asked:
            return self.search(asked)
        return self.imageinfo(asked) if asked.get("prop") == "imageinfo" else self.titles(asked)

    def entities(self, asked: Mapping[str, str]) -> Any:
        ids = asked["ids"].split("|")
        if len(ids) > MOST_TITLES:
            return {"error": {"code": "toomanyvalues", "info": "too many values", "limit": MOST_TITLES}}
        return {"entities": {each: self.entity(each, asked["props"].split("|")) for each in ids}, "success": 1}

    def entity(self, id_: str, props: Sequence[str]) -> dict[str, Any]:
        item = self.by_id.get(self.merged.get(id_, id_))
        if item is None:
            return {"id": id_, "missing": True}
        said: dict[str, Any] = {
            "labels": {"en": {"language": "en", "value": item.label}},
            "descriptions": {"en": {"language": "en", "value": item.description}} if item.description else {},
            "aliases": {"en": [{"language": "en", "value": each} for each in item.aliases]} if item.aliases else {},
            "claims": {pid: [claim(each) for each in values] for pid, values in item.claims.items() if values},
        }
        return {"type": "item", "id": item.id} | {key: value for key, value in said.items() if key in props}

    def titles(self, asked: Mapping[str, str]) -> Any:
        titles = list(dict.fromkeys(asked["titles"].split("|")))
        if len(titles) > MOST_TITLES:
            return {"error": {"code": "toomanyvalues", "info": "too many values", "limit": MOST_TITLES}}
        normalized = {each: each[:1].upper() + each[1:] for each in titles}
        led = {title: self.redirects.get(title, title) for title in normalized.values()}
        pages = []
        for title in dict.fromkeys(led.values()):
            item = self.pages.get(title)
            pages.append(
                {"title": title, "missing": True}
                if item is None
                else {"title": title, "pageprops": {"wikibase_item": item}}
            )
        query: dict[str, Any] = {"pages": pages}
        if changed := [{"fromencoded": False, "from": a, "to": b} for a, b in normalized.items() if a != b]:
            query["normalized"] = changed
        if changed := [{"from": a, "to": b} for a, b in led.items() if a != b]:
            query["redirects"] = changed
        return {"batchcomplete": True, "query": query}

    def search(self, asked: Mapping[str, str]) -> Any:
        text, limit = asked["gsrsearch"], min(int(asked.get("gsrlimit", "10")), MOST_SEARCHED)
        if len(text) > LONGEST_SEARCH:
            info = f"Search request is longer than the maximum allowed length. (actual: {len(text)}; allowed: 300)"
            return {"error": {"code": "cirrussearch-query-too-long", "info": info}}
        ranked = self.ranked(text)
        pages = [
            {"ns": 0, "title": self.items[number].id, "index": place, "entityterms": terms(self.items[number])}
            for place, number in enumerate(ranked[:limit], 1)
        ]
        if not pages:
            return {"batchcomplete": True}
        more = {"continue": {"gsroffset": limit, "continue": "gsroffset||"}} if len(ranked) > limit else {}
        pages.sort(key=lambda each: str(each["title"]))
        return {"batchcomplete": True, **more, "query": {"pages": pages}}

    def ranked(self, text: str) -> list[int]:
        """Return the items that have all words, or one of the alternatives between which OR stands; the best first."""
        scores: dict[int, float] = defaultdict(float)
        for alternative in re.split(r" OR ", text):
            phrases = [words(each) for each in re.findall(r'"([^"]*)"', alternative)]
            loose = words(re.sub(r'"[^"]*"', " ", alternative))
            wanted = [*loose, *(word for each in phrases for word in each)]
            if not wanted:
                continue
            for number in set.intersection(*(self.postings.get(word, set()) for word in set(wanted))):
                if all(any(follows(phrase, each) for each in self.texts[number]) for phrase in phrases):
                    scores[number] += sum(self.weight(word, number) for word in set(wanted))
        return sorted(scores, key=lambda number: (-scores[number], int(self.items[number].id[1:])))

    def weight(self, word: str, number: int) -> float:
        """Return what a word's being there is worth: more in the label, and in a short text."""
        rarity = math.log(1 + len(self.items) / (1 + len(self.postings[word])))
        label, *rest = self.texts[number]
        named = 2.0 / (1 + 0.1 * len(label)) if word in label else 0.0
        return rarity * (named + max((1 / (1 + 0.1 * len(each)) for each in rest if word in each), default=0.0))

    def sparql(self, query: str) -> Any:
        values = re.search(r"VALUES \?(\w+) \{(.*?)\} ", query, re.DOTALL)
        given = [] if values is None else LITERAL.findall(values[2])
        names = list(dict.fromkeys(unescaped(text) for text, language in given if language in ("", "@en")))
        pairs: Iterable[tuple[str, str]]
        if "skos:altLabel" in query:
            pairs = [(name, each) for name in names for each in self.named.get(name, [])]
        elif "wdt:P279*" in query:
            classes = re.findall(r"wd:(Q\d+)", query)
            below = ((each, item.id) for item in self.items for each in item.claims.get("P279", ()) if each in classes)
            pairs = [*((each, each) for each in classes), *below]
        else:
            found = re.search(r"\?item wdt:(P\d+) \?name", query)
            if found is None:
                return Said(b"Malformed query", 400, {"Content-Type": "text/plain"})
            wanted = set(names)
            claimed = ((value, each.id) for each in self.items for value in each.claims.get(found[1], ()))
            pairs = [(value, id_) for value, id_ in claimed if value in wanted or values is None]
        return {"head": {"vars": ["name", "item"]}, "results": {"bindings": [binding(*each) for each in pairs]}}

    def imageinfo(self, asked: Mapping[str, str]) -> Any:
        pages = []
        for title in asked["titles"].split("|"):
            known = self.files.get(title)
            pages.append(
                {"ns": 6, "title": title, "missing": True} if known is None else {"title": title, "imageinfo": [known]}
            )
        return {"batchcomplete": True, "query": {"pages": pages}}

    def server(self, seconds: float = 0.0, per_minute: int = PER_MINUTE) -> ProviderServer:
        return ProviderServer(self.answer, Window(per_minute, 60.0), at_once=AT_ONCE, seconds=seconds)


LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(@[a-z-]+)?')


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text)


def words(text: str) -> list[str]:
    """Return the words of a text without case and marks, as a search engine indexes them."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return re.findall(r"\w+", plain.replace("'", "").replace("’", ""))


def follows(phrase: Sequence[str], text: Sequence[str]) -> bool:
    size = len(phrase)
    return any(list(text[start : start + size]) == list(phrase) for start in range(len(text) - size + 1))


def terms(item: Item) -> dict[str, list[str]]:
    found = {"label": [item.label], "alias": list(item.aliases), "description": [item.description]}
    return {key: value for key, value in found.items() if any(value)}


def claim(value: Any) -> dict[str, Any]:
    rank = "normal"
    if isinstance(value, tuple):
        value, rank = value
    held: Any = {"type": "string", "value": value}
    if re.fullmatch(r"Q\d+", value):
        held = {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": value}}
    elif re.fullmatch(r"[+-]\d{4}-\d\d-\d\d", value):
        held = {"type": "time", "value": {"time": f"{value}T00:00:00Z", "precision": 11}}
    return {"mainsnak": {"snaktype": "value", "datavalue": held}, "type": "statement", "rank": rank}


def binding(name: str, id_: str) -> dict[str, Any]:
    item = {"type": "uri", "value": f"http://www.wikidata.org/entity/{id_}"}
    return {"name": {"type": "literal", "value": name}, "item": item}
