"""What a recipe of the type `image` declares."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from bulk_pipelines.engine.rate_limit import Limit
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.image.children import Spec
from bulk_pipelines.processing.providers.provider import LEASE_MARGIN, Provider
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.checking import Fields
from bulk_pipelines.processing.recipes.declaration import Recipe, Source

ANSWERS = (
    "file",
    "sha256",
    "bytes",
    "format",
    "mode",
    "animated",
    "width",
    "height",
    "orientation",
    "wrong_extension",
    "betrays",
    "phash",
    "colours",
    "thumbnail",
    "double_of",
    "title",
    "url",
    "licence",
    "author",
)
"""What the grid can show of a picture."""
FORMATS = {"jpeg": "jpg", "png": "png", "webp": "webp"}
"""The formats of thumbnails, with the ends of their names."""
MIB = 1 << 20
AT_ONCE = 4
"""How many pictures of one web server are fetched at the same time."""
BREAK_AFTER, BREAK_SECONDS = 10, 60.0
"""How many failures in a row it takes until a web server is left alone, and for how many seconds."""


@dataclass(frozen=True)
class Reference:
    """A table of pictures that are known."""

    table: str
    id: str
    hash: str


@dataclass(frozen=True)
class Options:
    image: str
    """Where a row's picture is: a template of an address, of a name in the folder, or of the picture itself."""
    folder: str
    """The folder in which names are looked up. Without it, rows of a file can name web addresses only."""
    thumbnails: str
    thumbnail: int
    thumbnail_format: str
    most_bytes: int
    most_pixels: int
    memory: int
    seconds: float
    near: int
    """How many of 64 bits may differ between the hashes of near-doubles; -1: they are not looked for."""
    reference: Reference | None
    title: str
    commons: str
    delay: float
    """Seconds between the beginnings of two requests to one web server that rows name, by whichever worker."""

    def limit_of(self, host: str) -> Limit:
        """Return what all workers together allow themselves at a web server that nobody has declared."""
        lease = 2 * self.seconds + LEASE_MARGIN
        return Limit(f"host:{host}", (), AT_ONCE, self.delay, lease, BREAK_AFTER, BREAK_SECONDS)

    @property
    def spec(self) -> Spec:
        return Spec(self.thumbnail, self.thumbnail_format.upper(), self.most_pixels, self.seconds)


@lru_cache(maxsize=64)
def options_of(recipe: Recipe) -> Options:
    with Fields(f"recipe.{recipe.name}", recipe.options) as fields:
        reference = fields.take("reference")
        title = template(fields, "title", "")
        return Options(
            image=template(fields, "image", "" if title else "{file}"),
            folder=fields.text("folder", ""),
            thumbnails=fields.text("thumbnails", ""),
            thumbnail=fields.whole("thumbnail", 256, most=2_048),
            thumbnail_format=kind(fields),
            most_bytes=fields.whole("most_mib", 64, least=1, most=1_024) * MIB,
            most_pixels=fields.whole("most_pixels", 100_000_000, least=1, most=1_000_000_000),
            memory=fields.whole("memory_mib", 1_024, least=256, most=65_536) * MIB,
            seconds=fields.number("seconds", 30.0, least=0.1, most=600),
            near=fields.whole("near", 4, least=-1, most=16),
            reference=None if reference is None else table(Fields(fields.at("reference"), reference)),
            title=title,
            commons=fields.text("commons", "commons"),
            delay=fields.number("delay", 0.1, most=3_600),
        )


def template(fields: Fields, name: str, default: str) -> str:
    text = fields.text(name, default)
    templates.columns_of(fields.at(name), text)
    return text


def kind(fields: Fields) -> str:
    text = fields.text("thumbnail_format", "jpeg")
    if text not in FORMATS:
        raise InvalidInput(fields.at("thumbnail_format"), f"{text!r} is none of {', '.join(FORMATS)}")
    return text


def table(fields: Fields) -> Reference:
    with fields:
        return Reference(fields.text("table"), fields.text("id"), fields.text("hash", "phash"))


def check(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    place = f"recipe.{recipe.name}"
    options = options_of(recipe)
    if options.title and options.commons not in providers:
        raise InvalidInput(f"{place}.commons", f"{options.commons!r} is not declared")
    for column in recipe.columns:
        if column.source is Source.ANSWER and column.key not in ANSWERS:
            raise InvalidInput(f"{place}.columns", f"there is no {column.key!r}; there are {', '.join(ANSWERS)}")


def ready(recipe: Recipe, providers: Mapping[str, Provider]) -> None:
    options = options_of(recipe)
    if options.title:
        providers[options.commons].check_contact()


def at_once(recipe: Recipe) -> int:
    """Return how many pictures are decoded at a time. More than there are processors would wait for each other."""
    return min(recipe.at_once, os.cpu_count() or 1)
