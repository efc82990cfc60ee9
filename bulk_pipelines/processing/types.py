"""The types of recipe that this installation has."""

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.image.looking import TYPE as IMAGE
from bulk_pipelines.processing.lookup.looking import TYPE as LOOKUP
from bulk_pipelines.processing.match.matching import TYPE as MATCH
from bulk_pipelines.processing.recipes.types import RecipeType
from bulk_pipelines.processing.reconcile.reconciling import TYPE as RECONCILE
from bulk_pipelines.processing.wikidata.tiers import TYPE as WIKIDATA

TYPES = {each.name: each for each in (LOOKUP, RECONCILE, MATCH, WIKIDATA, IMAGE)}


def find(name: str) -> RecipeType:
    try:
        return TYPES[name]
    except KeyError:
        raise InvalidInput("type", f"there is no type of recipe {name!r}; there are {', '.join(TYPES)}") from None
