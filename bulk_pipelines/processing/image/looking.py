"""The pictures of a claim are looked at: each is fetched and decoded by a child, and its thumbnail is written."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.rate_limit import Stopped
from bulk_pipelines.errors import Failure, InvalidInput
from bulk_pipelines.processing import results
from bulk_pipelines.processing.image import children, doubles, fetching, licences, options
from bulk_pipelines.processing.image.children import Children, Undecoded
from bulk_pipelines.processing.image.fetching import Place
from bulk_pipelines.processing.image.options import FORMATS, Options, options_of
from bulk_pipelines.processing.intake import collections, sources
from bulk_pipelines.processing.providers.answers import Answer
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.types import Looked, RecipeType, Try
from bulk_pipelines.processing.results import Candidate, Finding, Origin, Outcome
from bulk_pipelines.storage.errors import Missing

ENDS = {
    "JPEG": ("jpg", "jpeg", "jpe", "jfif", "mpo"),
    "PNG": ("png", "apng"),
    "WEBP": ("webp",),
    "GIF": ("gif",),
    "TIFF": ("tif", "tiff"),
    "BMP": ("bmp", "dib"),
    "AVIF": ("avif", "avifs"),
}
"""How the names of pictures end, by the format."""
PICTURES = frozenset(end for ends in ENDS.values() for end in ends) | {"svg", "psd", "heic", "jxl", "ico", "jp2", "eps"}
LONGEST_NAME = 200
Known = Mapping[str, Answer | Failure]


def look_all(recipe: Recipe, tries: Sequence[Try], desk: Desk) -> dict[int, Looked]:
    chosen = options_of(recipe)
    known = asked_of_commons(chosen, tries, desk)
    decoding = children.shared(options.at_once(recipe), chosen.memory)
    place = place_of(chosen, tries[0], desk) if tries else Place()

    def one(tried: Try) -> Looked:
        if desk.stopping():
            raise Stopped
        try:
            return looked(chosen, tried, Looking(place, decoding, known, desk))
        except (Failure, InvalidInput) as error:
            return Looked(results.failed(error), error)

    # There are twice as many threads as pictures are decoded: the others fetch a picture, or write a thumbnail.
    with ThreadPoolExecutor(2 * options.at_once(recipe), "picture") as threads:
        return dict(zip((each.item_id for each in tries), threads.map(one, tries), strict=True))


def place_of(chosen: Options, tried: Try, desk: Desk) -> Place:
    """Return where the rows of the job have their pictures. A row does not decide that, because it could name any
    folder."""
    if not tried.source or not collections.is_collection(tried.source):
        return Place(chosen.folder)
    with transaction(desk.pool) as connection:
        found = sources.noted(connection, tried.envelope.job_id)
    if found is not None and found.landed is not None:
        return Place(archive=found.landed, listed=True)
    if collections.is_archive(tried.source):
        return Place(archive=tried.source, listed=True)
    return Place(tried.source, listed=True)


def asked_of_commons(chosen: Options, tries: Iterable[Try], desk: Desk) -> dict[str, Answer | Failure]:
    """Ask Commons for all titles of the claim."""
    if not chosen.title:
        return {}
    found: dict[str, Answer | Failure] = {}
    for serving in dict.fromkeys(each.serving for each in tries):
        written = (templates.filled(chosen.title, each.row) for each in tries if each.serving == serving)
        titles = list(dict.fromkeys(licences.title_of(each) for each in written if each and "|" not in each))
        for start in range(0, len(titles), licences.TOGETHER):
            some = titles[start : start + licences.TOGETHER]
            try:
                found |= desk.ask(
                    chosen.commons, some, licences.information, place="imageinfo", batch=len(some), serving=serving
                )
            except Failure as error:
                found |= dict.fromkeys(some, error)
    return found


@dataclass(frozen=True)
class Looking:
    """What the pictures of a claim share."""

    place: Place
    decoding: Children
    known: Known
    """What Commons said, by titles."""
    desk: Desk


def looked(chosen: Options, tried: Try, looking: Looking) -> Looked:
    written = templates.filled(chosen.title, tried.row) if chosen.title else None
    text = templates.filled(chosen.image, tried.row) or None
    if text is None and written is None:
        return Looked(Finding(Outcome.SKIPPED, reason="the row names no picture"))
    answer: dict[str, Any] = {}
    origin = None
    if written is not None:
        said = looking.known.get(licences.title_of(written))
        if isinstance(said, Failure):
            raise said
        if said is None or said.value is None:
            return Looked(Finding(Outcome.NO_MATCH, reason=f"Commons has no {licences.title_of(written)}"))
        answer = dict(said.value)
        origin = Origin("title", chosen.commons, said.cached, said.asked_at)
    if text is not None:
        try:
            data = fetching.fetched(text, tried.row.get("member"), looking.place, chosen, looking.desk.limiter)
            answer |= seen(chosen, name_of(text), data, looking, again=tried.attempt > 1)
        except Missing as error:
            return Looked(Finding(Outcome.NO_MATCH, reason=str(error)))
        except Undecoded as error:
            if looking.place.listed and end_of(name_of(text)) not in PICTURES:
                return Looked(Finding(Outcome.SKIPPED, reason=str(error)))
            raise
    name = str(answer.get("file") or answer.get("title") or "")
    candidate = Candidate(str(answer.get("sha256") or answer.get("title")), name, None, answer, answer)
    return Looked(Finding(Outcome.MATCHED, (candidate,), origin))


def seen(chosen: Options, name: str, data: bytes, looking: Looking, *, again: bool) -> dict[str, Any]:
    found = looking.decoding.see(data, chosen.spec)
    end = end_of(name)
    answer: dict[str, Any] = {"file": name, "bytes": len(data), **found.found}
    answer["wrong_extension"] = bool(end) and end not in ENDS[answer["format"]]
    if found.thumbnail and looking.desk.stored:
        answer["thumbnail"] = written_thumbnail(chosen, found.thumbnail, again=again)
    return answer


def written_thumbnail(chosen: Options, data: bytes, *, again: bool) -> str:
    """Write a thumbnail under the hash of its bytes, whole, and return its address. Equal thumbnails are one file. With
    `again`, a file that an earlier try has left unfinished is removed, because that try may have been killed."""
    digest = hashlib.sha256(data).hexdigest()
    key = f"{digest[:2]}/{digest}.{FORMATS[chosen.thumbnail_format]}"
    storage = fetching.opened(chosen.thumbnails or str(settings.current().home / "thumbnails"))
    if again:
        storage.sweep(datetime.now(UTC), of=key)
    if not storage.exists(key):
        with storage.publish(key) as sink:
            sink.write(data)
    return storage.url_of(key)


def name_of(text: str) -> str:
    """Return what a picture is called: a picture in a cell has no name."""
    if fetching.CELL.match(text) or text.startswith(fetching.HEX):
        return ""
    name = PurePosixPath(urlsplit(text).path).name if fetching.WEB.match(text) else text
    return name[-LONGEST_NAME:]


def end_of(name: str) -> str:
    return PurePosixPath(name).suffix.removeprefix(".").lower()


TYPE = RecipeType(
    name="image",
    asset="images",
    says="Pictures read: size, format, colours, near-doubles, thumbnails.",
    check=options.check,
    look_all=look_all,
    claim=500,
    files=True,
    reconcile=doubles.reconcile,
    ready=options.ready,
)
