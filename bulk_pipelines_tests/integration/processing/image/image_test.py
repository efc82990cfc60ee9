"""Pictures as rows: what is seen of them, and what is written of them."""

import io
from pathlib import Path

import pytest
from PIL import Image

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.processing import trial
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import pictures
from bulk_pipelines_tests.scenes.image_jobs import RECIPE, by_file, filled, good, zipped
from bulk_pipelines_tests.scenes.processing import Scene


@pytest.mark.parametrize("packed", [False, True])
def test_the_files_of_a_folder_and_of_an_archive(scene: Scene, folder: Path, tmp_path: Path, packed: bool) -> None:
    scene.declare(RECIPE.format(recipe=""))
    source = zipped(tmp_path / "all.ZIP", good()) if packed else filled(folder, good())
    job = scene.done("pictures", source=source)
    assert job.status == "COMPLETED", job.last_error
    rows = by_file(scene, job)
    assert set(rows) == set(good()) - {".DS_Store"}
    assert rows.pop("notes.txt")["Outcome"] == "skipped"
    assert {row["Outcome"] for row in rows.values()} == {"matched"}
    photo = rows["photo.jpg"]
    assert (photo["Width"], photo["Height"]) == ("240", "320"), "as it is to be looked at"
    assert photo["Tells"] == "exif; gps; icc; xmp; comment"
    assert rows["animated.gif"]["Animated"] == "true"
    assert rows["cmyk.jpg"]["Mode"] == "CMYK"
    assert rows["deep.png"]["Mode"] == "I;16"
    assert [name for name, row in rows.items() if row["Wrong end"] == "true"] == ["really a.png"]
    assert len({row["Hash"] for row in rows.values()}) == len(rows)
    for row in rows.values():
        data = Path(row["Thumbnail"].removeprefix("file://")).read_bytes()
        assert b"SECRET" not in data
        assert b"Exif" not in data
        assert b"ICC_PROFILE" not in data
        with Image.open(io.BytesIO(data)) as image:
            assert max(image.size) == 256
            assert (image.format, image.mode) == ("JPEG", "RGB")


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_nothing_of_the_metadata_is_in_thumbnails_of_other_formats(scene: Scene, folder: Path, kind: str) -> None:
    scene.declare(RECIPE.format(recipe=f'thumbnail_format = "{kind}"'))
    job = scene.done("pictures", source=filled(folder, {"a.jpg": pictures.telling(), "b.png": pictures.text_png()}))
    rows = by_file(scene, job)
    assert rows["b.png"]["Tells"] == "comment"
    for row in rows.values():
        data = Path(row["Thumbnail"].removeprefix("file://")).read_bytes()
        for sign in (b"SECRET", b"EXIF", b"eXIf", b"iCCP", b"ICCP", b"tEXt", b"XMP"):
            assert sign not in data


def test_near_doubles_within_the_job_and_of_known_pictures(scene: Scene, folder: Path) -> None:
    known = pictures.drawn(seed=21)
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.known_pictures (name text, phash text)")
    files = {
        "a first.jpg": pictures.saved(pictures.drawn(640, 480, seed=20)),
        "b smaller.jpg": pictures.saved(pictures.drawn(seed=20), quality=60),
        "c other format.png": pictures.saved(pictures.drawn(seed=20), "PNG"),
        "d other.jpg": pictures.saved(pictures.drawn(seed=22)),
        "e known.jpg": pictures.saved(known, quality=50),
        "f equal.jpg": pictures.saved(pictures.drawn(seed=22)),
    }
    scene.declare(RECIPE.format(recipe=""))
    job = scene.done("pictures", source=filled(folder, files))
    first = {name: row["Double"] for name, row in by_file(scene, job).items()}
    assert first == {
        "a first.jpg": "",
        "b smaller.jpg": "a first.jpg",
        "c other format.png": "a first.jpg",
        "d other.jpg": "",
        "e known.jpg": "",
        "f equal.jpg": "d other.jpg",
    }
    with transaction(scene.pool) as connection:
        hash_ = by_file(scene, job)["e known.jpg"]["Hash"]
        connection.execute(
            "INSERT INTO known_pictures VALUES ('the known one', %s), ('far away', %s)", (hash_, "0" * 16)
        )
    scene.declare(RECIPE.format(recipe='reference = { table = "known_pictures", id = "name", hash = "phash" }'))
    job = scene.done("pictures", source=str(folder))
    assert by_file(scene, job)["e known.jpg"]["Double"] == "the known one"
    assert by_file(scene, job)["f equal.jpg"]["Double"] == "d other.jpg"


def test_thumbnails_of_equal_pictures_are_one_file_in_any_storage(scene: Scene, folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "thumbs"
    to.mkdir()
    scene.declare(RECIPE.format(recipe=f'thumbnails = "{to}"\nthumbnail = 64'))
    job = scene.done("pictures", source=filled(folder, {"a.jpg": pictures.telling(), "b.jpg": pictures.telling()}))
    addresses = {row["Thumbnail"] for row in scene.grid(job)}
    files = [each for each in to.rglob("*") if each.is_file()]
    assert len(addresses) == len(files) == 1
    assert str(files[0]) in next(iter(addresses))


def test_trying_a_folder_writes_nothing(scene: Scene, folder: Path) -> None:
    scene.declare(RECIPE.format(recipe=""))
    found = library.load(current())
    tried = trial.run(scene.pool, found, found.recipe("pictures"), filled(folder, good()), 3, current())
    lines = [line for row in tried for line in trial.lines(row)]
    assert len(lines) == 3
    assert not (scene.folder / "home" / "thumbnails").exists()
