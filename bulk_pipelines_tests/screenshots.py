"""Photograph every page of the console at three widths, into docs/images/console: `make screenshots`."""

import sys
import tempfile
from pathlib import Path

import psycopg

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import binaries, shared
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.browser import logged_in
from bulk_pipelines_tests.scenes.furnished import furnished
from bulk_pipelines_tests.scenes.pages import PAGES, place_of
from bulk_pipelines_tests.scenes.whole_imports import begun, worked
from bulk_pipelines_tests.servers import chromium

PLACE = CHECKOUT / "docs" / "images" / "console"
WIDTHS = {"wide": 1280, "middle": 820, "narrow": 390}
HIGHEST = 1_100
LARGE = 120_000
"""The records of an import that is large enough to have a speed that changes."""
ON_S3 = """
    UPDATE job_item SET result = jsonb_set(result, '{path}', to_jsonb(
        's3://partners/exports/' || substring(result ->> 'path' FROM '[^/]+/[^/]+/[^/]+/[^/]+/[^/]+$')
    )) WHERE kind = 'distribution' AND result ->> 'path' IS NOT NULL
"""
FOR_ADMINS = {"drops", "keys", "workers", "audit"}


def main() -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="bulk-") as name,
        shared.held(Path(name) / "pg", binaries.embedded()) as server,
    ):
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE console")
        migrations.apply(server.url("console"))
        samples.furnish(server.url("console"))
        engine = pool.connect(server.url("console"))
        home = Path(name) / "house"
        home.mkdir()
        with furnished(engine, home) as (api, made), chromium.started() as browser:
            large = "".join(f",customer{n}@example.org,Customer {n},reader,true\n" for n in range(LARGE))
            worked(engine, begun(engine, made.users("customers-2026-11.csv", large)))
            with engine.begin() as connection:  # files as they lie where people have them
                connection.exec_driver_sql(ON_S3)
            people = {True: logged_in(browser, api), False: logged_in(browser, api, "ada", Scope.WRITE)}
            dark = logged_in(browser, api, "ada", Scope.WRITE, color_scheme="dark")
            for each in PAGES:
                for size, width in WIDTHS.items():
                    page = people[each in FOR_ADMINS].new_page()
                    taken(page, api.url + place_of(each, made), width, PLACE / f"{each}-{size}.png")
            for each in ("jobs", "job", "rejects"):
                taken(dark.new_page(), api.url + place_of(each, made), WIDTHS["wide"], PLACE / f"{each}-dark.png")
        engine.dispose()


def taken(page: chromium.Page, place: str, width: int, path: Path) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(place)
    page.evaluate("document.fonts.ready")
    if page.evaluate("document.documentElement.scrollWidth - window.innerWidth") > 0:
        sys.exit(f"{path.stem}: the page is wider than {width} pixels")
    height = min(int(page.evaluate("document.documentElement.scrollHeight")), HIGHEST)
    page.set_viewport_size({"width": width, "height": height})
    page.screenshot(path=path)
    page.close()


if __name__ == "__main__":
    main()
