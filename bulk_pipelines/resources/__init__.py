"""The resources. Each is declared once, in a module of its own name; a new one needs a declaration and a migration."""

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.articles import ARTICLES
from bulk_pipelines.resources.comments import COMMENTS
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.resources.users import USERS

# Each resource stands after those that it refers to.
RESOURCES = (USERS, ARTICLES, COMMENTS)


def find(name: str) -> Resource:
    for resource in RESOURCES:
        if resource.name == name:
            return resource
    known = ", ".join(resource.name for resource in RESOURCES)
    raise InvalidInput("resource", f"there is no resource {name!r}; known are {known}")


def referrers(resource: Resource) -> list[tuple[Resource, str]]:
    """Return each column that refers to the id of this resource, with the resource that has the column."""
    return [
        (other, reference.column)
        for other in RESOURCES
        for reference in other.references
        if reference.resource == resource.name
    ]
