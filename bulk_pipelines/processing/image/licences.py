"""Titles, licences and authors of the pictures of Wikimedia Commons. One request asks for fifty."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bulk_pipelines.processing.providers.asking import Call
from bulk_pipelines.processing.wikidata.entities import listed, table, text
from bulk_pipelines.processing.wikidata.questions import api, leading, led, query_of

TOGETHER = 50
TAG = re.compile(r"<[^<>]*>")
"""A tag, without another `<` in it: so a text of many such signs is read once, and not once for each of them."""
MOST = 1_000


def title_of(written: str) -> str:
    """Return the title of a file's page, as people write it: an address, a name, or the title."""
    name = written.rpartition("/wiki/")[2].replace("_", " ").strip()
    return name if name.lower().startswith("file:") else f"File:{name}"


def information(titles: Sequence[str], call: Call) -> dict[str, Any]:
    """Ask what Commons says of these files. The answer for a file that it does not have is None."""
    asked = api(
        action="query",
        titles="|".join(titles),
        redirects="1",
        prop="imageinfo",
        iiprop="url|size|mime|sha1|extmetadata",
        iiextmetadatafilter="LicenseShortName|Artist|ObjectName",
    )
    answer = query_of(call(asked))
    leads = leading(answer)
    found = {}
    for page in listed(answer.get("pages") or [], "pages"):
        title = text(table(page, "a page").get("title"), "a title")
        versions = listed(page.get("imageinfo") or [], "imageinfo")
        if versions:
            found[title] = shown(title, table(versions[0], "a version"))
    return {title: found.get(led(title, leads)) for title in titles}


def shown(title: str, version: Mapping[str, Any]) -> dict[str, Any]:
    said = table(version.get("extmetadata") or {}, "extmetadata")
    return {
        "title": title,
        "url": version.get("url"),
        "width": version.get("width"),
        "height": version.get("height"),
        "bytes": version.get("size"),
        "format": str(version.get("mime") or "").rpartition("/")[2].upper() or None,
        "licence": plain(said.get("LicenseShortName")),
        "author": plain(said.get("Artist")),
    }


def plain(value: Any) -> str | None:
    """Return a text of HTML without its tags."""
    if value is None:
        return None
    said = str(table(value, "a text").get("value") or "")
    return html.unescape(TAG.sub("", said)).strip()[:MOST] or None
