"""A recipe that matches rows with Wikidata, and the items that are there."""

from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer
from bulk_pipelines_tests.servers.wikimedia_server import Item

RECIPE = """
[provider.wikidata]
address = "{address}w/"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
answer_seconds = 5
break_after = 0
{provider}

[provider.wikidata-query]
address = "{address}"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
answer_seconds = 5
break_after = 0
{provider}

[provider.wikipedia-en]
address = "{address}en/w/"
contact = "{contact}"
private = true
shares = "wikimedia"
per_minute = 200
at_once = 3
maxlag = 5
answer_seconds = 5
break_after = 0
{provider}

[recipe.things]
type = "wikidata"
titles = ["wikipedia-en"]
attempts = 3
not_found_attempts = 1
{recipe}
variants = [
    {{ name = "exact", query = "{{name}}" }},
    {{ name = "legal form stripped", query = "{{name}}", form = "stripped" }},
    {{ name = "comma-inverted", query = "{{name}}", form = "inverted" }},
    {{ name = "transliterated", query = "{{name}}", form = "transliterated" }},
    {{ name = "acronym", query = "{{name}}", form = "acronym" }},
]
columns = [
    {{ header = "Name", input = "name" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "By", evidence = "provider" }},
    {{ header = "Site", answer = "P856" }},
    {{ header = "About", answer = "description" }},
    {{ header = "Why", evidence = "reason" }},
]
"""
HUMAN, BUSINESS, BANK, CITY = "Q5", "Q4830453", "Q22687", "Q515"
ITEMS = [
    Item("Q1", "Acme Widgets", "maker of widgets", claims={"P31": [BUSINESS], "P856": ["https://acme.example/"]}),
    Item("Q2", "Ada Lovelace", "English mathematician", claims={"P31": [HUMAN], "P569": ["+1815-12-10"]}),
    Item("Q3", "Ada Lovelace", "Scottish singer", claims={"P31": [HUMAN], "P569": ["+1990-01-02"]}),
    Item("Q4", "Bayerische Motoren Werke", "car maker", ("BMW",), {"P31": [BUSINESS], "P17": ["Q183"]}),
    Item("Q6", "Springfield", "city in Illinois", claims={"P31": [CITY], "P17": ["Q30"]}),
    Item("Q7", "Springfield", "bank of Springfield", claims={"P31": [BANK], "P17": ["Q30"], "P1278": ["LEI7"]}),
    Item("Q8", "Gazprom", "energy company", ("Газпром",), {"P31": [BUSINESS], "P17": ["Q159"]}),
    Item("Q9", "Zorgon Industries of the North", "mining company", claims={"P31": [BUSINESS]}),
    Item("Q10", "Twin", "company in Berlin", claims={"P1278": ["LEI10"]}),
    Item("Q11", "Twin", "company in Paris", claims={"P1278": ["LEI11", "LEI12"]}),
    Item("Q12", "Other", "company", claims={"P1278": ["LEI12"]}),
    Item(BANK, "bank", "kind of business", claims={"P279": [BUSINESS]}),
    Item("Q183", "Germany", claims={"P297": ["DE"]}),
    Item("Q30", "United States", claims={"P297": ["US"]}),
]
REDIRECTS = {"Acme Ltd of Springfield": "Acme Widgets"}


def declare(
    scene: Scene, server: ProviderServer, recipe: str = "", provider: str = "", contact: str = "a@b.org", tries: int = 1
) -> None:
    text = RECIPE.replace("not_found_attempts = 1", f"not_found_attempts = {tries}")
    scene.declare(text.format(address=server.url, recipe=recipe, provider=provider, contact=contact))


def asked(call: Call) -> str:
    """Say what a request asks for."""
    body = call.body.decode()
    for sign in ("wbgetentities", "generator=search", "pageprops", "altLabel", "P279", "P297", "P1278"):
        if sign in body:
            return sign
    return body


def found(scene: Scene, text: str) -> list[tuple[str, str, str]]:
    job = scene.done("things", source=scene.file(text))
    return [(row["Outcome"], row["Id"], row["Variant"]) for row in scene.grid(job)]
