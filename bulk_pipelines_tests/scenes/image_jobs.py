"""Jobs that look at pictures: the recipe, folders and archives of files, and the grid by files."""

import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from bulk_pipelines_tests.scenes import pictures
from bulk_pipelines_tests.scenes.processing import Scene

RECIPE = """
[recipe.pictures]
type = "image"
attempts = 2
not_found_attempts = 1
{recipe}
columns = [
    {{ header = "File", input = "file" }},
    {{ header = "Outcome", evidence = "outcome" }},
    {{ header = "Format", answer = "format" }},
    {{ header = "Width", answer = "width" }},
    {{ header = "Height", answer = "height" }},
    {{ header = "Mode", answer = "mode" }},
    {{ header = "Hash", answer = "phash" }},
    {{ header = "Tells", answer = "betrays" }},
    {{ header = "Wrong end", answer = "wrong_extension" }},
    {{ header = "Animated", answer = "animated" }},
    {{ header = "Double", answer = "double_of" }},
    {{ header = "Thumbnail", answer = "thumbnail" }},
    {{ header = "Licence", answer = "licence" }},
    {{ header = "Author", answer = "author" }},
    {{ header = "Why", evidence = "reason" }},
]
"""


def filled(folder: Path, files: dict[str, bytes]) -> str:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return str(folder)


def zipped(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return str(path)


def by_file(scene: Scene, job: Any) -> dict[str, dict[str, str]]:
    return {row["File"]: row for row in scene.grid(job)}


@cache
def good() -> dict[str, bytes]:
    return {
        "photo.jpg": pictures.telling(),
        "sub/plain.png": pictures.saved(pictures.drawn(seed=2), "PNG"),
        "animated.gif": pictures.animated(),
        "cmyk.jpg": pictures.saved(pictures.drawn(seed=3, mode="CMYK")),
        "deep.png": pictures.saved(
            pictures.drawn(seed=4, mode="L").convert("I").point(lambda v: v * 257).convert("I;16"), "PNG"
        ),
        "clear.webp": pictures.saved(pictures.drawn(seed=5, mode="RGBA"), "WEBP"),
        "really a.png": pictures.saved(pictures.drawn(seed=6)),
        "small.avif": pictures.saved(pictures.drawn(seed=7), "AVIF"),
        "scan.tif": pictures.saved(pictures.drawn(seed=8, mode="1"), "TIFF"),
        "notes.txt": b"these are my holidays",
        ".DS_Store": b"\0\1",
    }
