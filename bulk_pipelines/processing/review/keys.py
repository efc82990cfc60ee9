"""What a row says, by the columns that its recipe asks with: rows that say the same are the same to a reviewer."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from bulk_pipelines.processing import types
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe


def said(recipe: Recipe, row: Mapping[str, Any]) -> dict[str, str]:
    """Return what the row says, as it is written."""
    read = {name for each in recipe.variants for name in templates.columns_of(recipe.name, each.query)}
    columns = sorted(read | types.find(recipe.type).reads(recipe))
    return {name: text for name in columns if (text := templates.text_of(row.get(name)))}


def key_of(given: Mapping[str, str]) -> bytes:
    """Return the key of what a row says. Neither case nor spaces nor the form of its characters matters."""
    folded = {name: " ".join(unicodedata.normalize("NFKC", text).casefold().split()) for name, text in given.items()}
    return hashlib.sha256(json.dumps(folded, sort_keys=True).encode()).digest()
