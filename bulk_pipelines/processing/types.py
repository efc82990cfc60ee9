"""The types of recipe that this installation has."""

from bulk_pipelines import settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.image.looking import TYPE as IMAGE
from bulk_pipelines.processing.lookup.looking import TYPE as LOOKUP
from bulk_pipelines.processing.match.matching import TYPE as MATCH
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.types import RecipeType
from bulk_pipelines.processing.reconcile.reconciling import TYPE as RECONCILE
from bulk_pipelines.processing.wikidata.tiers import TYPE as WIKIDATA

TYPES = {each.name: each for each in (LOOKUP, RECONCILE, MATCH, WIKIDATA, IMAGE)}


def find(name: str) -> RecipeType:
    try:
        return TYPES[name]
    except KeyError:
        raise InvalidInput("type", f"there is no type of recipe {name!r}; there are {', '.join(TYPES)}") from None


def not_found_attempts(recipe: Recipe) -> int:
    """Return how often a row is tried for which nothing is found, by the recipe, by its type, or by the settings."""
    by_settings = settings.current().engine.max_attempts_not_found
    return recipe.not_found_attempts or find(recipe.type).not_found_attempts or by_settings
