"""The requests to Wikimedia's interfaces, and how their answers are read. One request has many questions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bulk_pipelines.processing.matching.folding import fold
from bulk_pipelines.processing.providers.asking import Call, Fetch
from bulk_pipelines.processing.providers.client import Request
from bulk_pipelines.processing.wikidata import entities
from bulk_pipelines.processing.wikidata.entities import PREFIX, Entity, listed, lying, table, text
from bulk_pipelines.processing.wikidata.options import ITEM

API = "api.php"
COMMON = {"format": "json", "formatversion": "2", "errorformat": "bc"}
LONGEST_SEARCH = 300
"""How many characters a search may have: longer ones are refused."""
FOUND_TOGETHER, FOUND_ALONE = 50, 10
TELLING = 4
"""How many letters a word must have to tell names apart."""
MOST_SAME, MOST_CLASSES = 20, 100_000
"""How many items of one name are looked at, and how many classes below one."""


def api(**params: str) -> Request:
    """Return a request to a MediaWiki. It is a form, because fifty titles are too long for an address."""
    return Request(API, "POST", form={**COMMON, **params})


def query_of(answer: Any) -> Mapping[str, Any]:
    """Return what a MediaWiki says to a query; empty when it found nothing."""
    said = table(answer, "an answer")
    if "error" in said:
        raise lying(f"the error {json.dumps(said['error'])[:200]}")
    return table(said.get("query") or {}, "a query's answer")


def of_entities(languages: Sequence[str], wanted: Sequence[str]) -> Fetch:
    """Ask for entities by their ids."""

    def fetch(ids: Sequence[str], call: Call) -> dict[str, Any]:
        props = "labels|aliases|descriptions|claims" if wanted else "labels|aliases|descriptions"
        answer = table(
            call(api(action="wbgetentities", ids="|".join(ids), props=props, languages="|".join(languages))),
            "an answer",
        )
        if "entities" not in answer:
            raise lying(f"no entities: {json.dumps(answer)[:200]}")
        held = table(answer["entities"], "entities")
        if missing := [each for each in ids if each not in held]:
            raise lying(f"nothing is said of {missing[0]}")
        found = {each: entities.of_answer(held[each], languages, wanted) for each in ids}
        return {each: None if entity is None else entity.as_json() for each, entity in found.items()}

    return fetch


def titles(names: Sequence[str], call: Call) -> dict[str, Any]:
    """Ask a wiki for pages of these titles. If a title leads to another page, the item of that page is the answer."""
    answer = query_of(
        call(
            api(
                action="query",
                titles="|".join(names),
                redirects="1",
                prop="pageprops",
                ppprop="wikibase_item|disambiguation",
            )
        )
    )
    leads = leading(answer)
    items = {}
    for page in listed(answer.get("pages") or [], "pages"):
        props = table(table(page, "a page").get("pageprops") or {}, "pageprops")
        if "wikibase_item" in props and "disambiguation" not in props:
            items[text(page.get("title"), "a title")] = text(props["wikibase_item"], "an item")
    return {name: items.get(led(name, leads)) for name in names}


def leading(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return which titles lead to which."""
    steps = [
        table(each, step)
        for step in ("normalized", "converted", "redirects")
        for each in listed(answer.get(step) or [], step)
    ]
    return {text(each.get("from"), "a title"): text(each.get("to"), "a title") for each in steps}


def led(title: str, leads: Mapping[str, str]) -> str:
    for _ in range(4):
        if title not in leads:
            break
        title = leads[title]
    return title


def labels(languages: Sequence[str]) -> Fetch:
    """Ask by SPARQL for the items that have exactly these labels or aliases."""

    def fetch(names: Sequence[str], call: Call) -> dict[str, Any]:
        values = " ".join(f"{literal(name)}@{code}" for name in names for code in languages)
        pattern = "{ ?item rdfs:label ?name } UNION { ?item skos:altLabel ?name }"
        return sparql(names, call, f"SELECT ?name ?item WHERE {{ VALUES ?name {{ {values} }} {pattern} }}")

    return fetch


def identified(pid: str) -> Fetch:
    """Ask by SPARQL for the items with these identifiers."""

    def fetch(values: Sequence[str], call: Call) -> dict[str, Any]:
        given = " ".join(map(literal, values))
        return sparql(values, call, f"SELECT ?name ?item WHERE {{ VALUES ?name {{ {given} }} ?item wdt:{pid} ?name }}")

    return fetch


def subclasses(classes: Sequence[str], call: Call) -> dict[str, Any]:
    """Ask by SPARQL for all classes below these. An answer is kept for long, so a job asks once at most."""
    values = " ".join(f"wd:{each}" for each in classes)
    pattern = "?item wdt:P279* ?class . BIND(STRAFTER(STR(?class), '/entity/') AS ?name)"
    return sparql(
        classes, call, f"SELECT ?name ?item WHERE {{ VALUES ?class {{ {values} }} {pattern} }}", most=1_000_000
    )


def countries(_: Sequence[str], call: Call) -> dict[str, Any]:
    """Ask by SPARQL for the ISO codes of all countries: the answer's items by code."""
    found: dict[str, str] = {}
    for code, item in bindings(call(Request("sparql", "POST", form={"query": COUNTRIES, "format": "json"}))):
        found[item] = code.lower()
    return {"countries": found or None}


COUNTRIES = "SELECT ?name ?item WHERE { ?item wdt:P297 ?name }"


def sparql(questions: Sequence[str], call: Call, query: str, most: int = MOST_SAME) -> dict[str, Any]:
    found: dict[str, dict[str, None]] = {each: {} for each in questions}
    for name, item in bindings(call(Request("sparql", "POST", form={"query": query, "format": "json"}))):
        if name in found and ITEM.fullmatch(item):
            found[name][item] = None
    return {name: sorted(items, key=lambda each: (len(each), each))[:most] or None for name, items in found.items()}


def bindings(answer: Any) -> list[tuple[str, str]]:
    """Return the names and items of a SPARQL answer."""
    results = table(table(answer, "an answer").get("results"), "results")
    found = []
    for each in listed(results.get("bindings"), "bindings"):
        name, item = (table(table(each, "a binding").get(key), key).get("value") for key in ("name", "item"))
        found.append((text(name, "a name"), text(item, "an item").removeprefix(PREFIX)))
    return found


def literal(value: str) -> str:
    """Return a text as SPARQL writes it: nothing in it can end it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "")


def of_together(questions: Sequence[str]) -> str:
    """Return the search for the phrases of many rows."""
    return searched(list(dict.fromkeys(phrase for each in questions for phrase in shortest(json.loads(each)))))


def shortest(phrases: Sequence[str]) -> list[str]:
    """Leave out the phrases that begin with another one, of two long words or more: what has them has that one, too."""
    telling = [each for each in phrases if len(each.split()) > 1 and min(map(len, each.split())) >= TELLING]
    return [each for each in phrases if not any(each.startswith(f"{short} ") for short in telling)]


def searched(phrases: Sequence[str]) -> str:
    return " OR ".join(f'"{each}"' for each in phrases)


def plain(name: str) -> str:
    """Return a name without the signs that mean something to the search."""
    return " ".join("".join(each if each.isalnum() or each in "'&.\u2019" else " " for each in name).split())


def together(language: str) -> Fetch:
    """Search the phrases of many rows by one request; a question is a list of phrases as JSON. A page belongs to the
    rows whose phrases it has. If there were more pages than an answer holds, rows without a page are searched again in
    smaller groups."""

    def apart(questions: Sequence[str], call: Call) -> dict[str, list[Entity]]:
        pages, more = search(call, of_together(questions), FOUND_TOGETHER, language)
        found = {each: [page for page in pages if has(page, json.loads(each))] for each in questions}
        without = [each for each in questions if not found[each]]
        if more and len(questions) > 1 and without:
            size = max(1, len(without) // 2) if len(without) == len(questions) else len(without)
            for start in range(0, len(without), size):
                found |= apart(without[start : start + size], call)
        return found

    def fetch(questions: Sequence[str], call: Call) -> dict[str, Any]:
        found = apart(questions, call)
        return {each: [page.as_json() for page in some] or None for each, some in found.items()}

    return fetch


def alone(language: str) -> Fetch:
    """Search one name by its words, in any order."""

    def fetch(questions: Sequence[str], call: Call) -> dict[str, Any]:
        found = {each: search(call, each, FOUND_ALONE, language)[0] for each in questions}
        return {each: [page.as_json() for page in some] or None for each, some in found.items()}

    return fetch


def search(call: Call, text_: str, limit: int, language: str) -> tuple[list[Entity], bool]:
    """Return the items that a search finds, with their terms, the best first; and whether there were more."""
    answer = call(
        api(
            action="query",
            generator="search",
            gsrsearch=text_,
            gsrnamespace="0",
            gsrlimit=str(limit),
            prop="entityterms",
            wbetterms="label|alias|description",
            wbetlanguage=language,
        )
    )
    pages = [table(each, "a page") for each in listed(query_of(answer).get("pages") or [], "pages")]
    ordered = sorted(pages, key=lambda each: each["index"] if isinstance(each.get("index"), int) else limit)
    found = [entity for each in ordered if (entity := entities.of_terms(each)) is not None]
    return found, "continue" in answer


def has(page: Entity, phrases: Sequence[str]) -> bool:
    said = f" {fold(' / '.join((*page.names, page.description)))} "
    return any(f" {fold(each)} " in said for each in phrases)
