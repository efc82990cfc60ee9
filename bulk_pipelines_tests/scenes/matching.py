"""Recipes that match rows with companies: in a table of the database, or in a file."""

from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.processing import Scene

ADA = Actor("ada", "cli")
RECIPE = """
[recipe.companies]
type = "match"
needs = ["company"]
{options}
variants = [
    {{ name = "name", query = "{{company}}" }},
    {{ name = "trading as", query = "{{trading_as}}" }},
]
columns = [
    {{ header = "Company", input = "company" }},
    {{ header = "Id", evidence = "id" }},
    {{ header = "City", answer = "city" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Variant", evidence = "variant" }},
    {{ header = "Why", evidence = "reason" }},
]
row = {{ countries = ["country"] }}

[recipe.companies.reference]
{reference}
id = "id"
names = ["name", "former"]
countries = ["country"]
"""
COMPANIES = """id,name,former,country,city
1,Blue Bottle Coffee Inc,,us,Oakland
2,Deutsche Lampen GmbH,Lampenwerk Ost,de,Jena
3,Deutsche Lampen AG,,at,Wien
4,Nordic Timber Oy,,fi,Turku
"""


def declare(scene: Scene, reference: str, options: str = "") -> None:
    scene.declare(RECIPE.format(reference=reference, options=options))


def ids(scene: Scene, job: Job) -> list[tuple[str, str]]:
    return [(row["Id"], row["Outcome"]) for row in scene.grid(job)]


ROWS = """company,trading_as,country
BLUE BOTTLE COFFEE,,
Deutsche Lampen,,AT
Deutsche Lampen,,
Lampenwerk,Lampenwerk Ost,
Nobody at all,,
,,de
"""
