"""The resources: what is declared of the tables into which people import, and from which they export.

A `declaration` has columns with `rules`, and the `reasons` for which a record can be rejected. `users`, `articles` and
`comments` are declared in modules of their own. Tables of other people are found and declared by `adoption`, from what
`reflection` reads in the catalogue; `written` is a declaration as files and requests have it, in the form of
`written_form`. `library` has the files, and `renewing` brings them up to date. `comparing` tells where a declaration
and its table differ, and `documentation` describes them all.
"""

from typing import NoReturn

from bulk_pipelines.database.session import own_schema
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import library, written
from bulk_pipelines.resources.articles import ARTICLES
from bulk_pipelines.resources.comments import COMMENTS
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.resources.users import USERS

# Each resource stands after those that it refers to.
RESOURCES = (USERS, ARTICLES, COMMENTS)
ANY_TABLE = Resource(written.UNDECLARED, "The rows of tables that nobody has declared.", (), (), schema="")


def known() -> tuple[Resource, ...]:
    """Return the resources that come with the project and those that were adopted, in this order."""
    return (*RESOURCES, *library.adopted({each.name for each in RESOURCES}))


def worked() -> tuple[Resource, ...]:
    """Return the resources that have kinds of job and assets: all known ones, and one that stands for all tables that
    nobody has declared."""
    return (*known(), ANY_TABLE)


def find(name: str) -> Resource:
    found = known()
    for resource in found:
        if resource.name == name:
            return resource
    names = ", ".join(resource.name for resource in found)
    raise InvalidInput(
        "resource",
        f"there is no resource {name!r}; the known ones are {names}. `bulk resources adopt` declares a table",
    )


def refuse_kind(job_key: str, kind: str, wanted: str) -> NoReturn:
    """Refuse a job that is none of the kinds that are known here. Its kind tells whether it is an import or an export
    (`wanted`) of a declaration that somebody has elsewhere, or has removed."""
    name = kind.removeprefix(f"{wanted}_")
    if name == kind:
        raise InvalidInput("job", f"{job_key} is no {wanted}, it is of the kind {kind}")
    raise InvalidInput(
        "job",
        f"{job_key} is an {wanted} of {name}, whose declaration is not here: work in the folder of the installation,"
        " or let BULK_RESOURCES name the folder of its declarations",
    )


def referrers(resource: Resource) -> list[tuple[Resource, str]]:
    """Return the columns that refer to the id of this resource, each with the resource that has it. Only resources that
    come with the project are looked through."""
    return [
        (other, reference.column)
        for other in RESOURCES
        for reference in other.references
        if reference.resource == resource.name
    ]


def of_samples() -> tuple[str, ...]:
    """Return the schemas in which the tables of our own resources may stand."""
    return ("public", own_schema())


def referred_to(resource: Resource) -> list[str]:
    """Return the names of those resources that this one refers to and that stand before it in the order. If some refer
    to each other in a circle, one of these references is left out, because an order has no circles."""
    before: list[Resource] = []
    for each in known():
        if each.name == resource.name:
            break
        before.append(each)
    places = {each.place: each.name for each in before}
    places |= {(schema, each.table): each.name for each in before if each.built_in for schema in of_samples()}
    return sorted({places[each.table] for each in resource.references if each.table in places})
