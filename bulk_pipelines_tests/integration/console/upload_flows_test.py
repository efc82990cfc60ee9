"""Files are sent in a real browser: in pieces, several at once, on from where a line or a server broke off."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect
from sqlalchemy import Engine

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import found
from bulk_pipelines_tests.scenes.browser import at_job, logged_in, served
from bulk_pipelines_tests.scenes.furnished import HEADER, Furnished
from bulk_pipelines_tests.servers.processes import free_port

pytestmark = pytest.mark.long
expect.set_options(timeout=60_000)


def test_an_upload_goes_on_where_the_line_broke_off(
    browser: Browser, api: Api, made: Furnished, tmp_path: Path
) -> None:
    file = tmp_path / "long.csv"
    file.write_text(HEADER + "".join(f",long{n}@example.org,{'x' * 100},reader,true\n" for n in range(120_000)))
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    offsets: list[int] = []

    def broken(route: Route) -> None:
        if route.request.method == "PATCH":
            offsets.append(int(route.request.headers["upload-offset"]))
            if len(offsets) == 2:
                route.abort()
                return
        route.continue_()

    page.route("**/v1/uploads/**", broken)
    page.goto(f"{api.url}/console/new/import")
    page.locator("[data-drop] input[type=file]").set_input_files(file)
    page.locator("form[data-upload] button[type=submit]").click()
    job = found(made.engine, at_job(page))
    assert offsets == [0, 8 << 20, 8 << 20]
    with transaction(made.engine) as connection:
        row = connection.execute("SELECT wanted_size FROM import_file WHERE job_id = %s", [job.job_id]).fetchone()
    assert row == (file.stat().st_size,)
    context.close()


def test_rows_are_sent_in_pieces_too_and_several_files_at_once(
    browser: Browser, api: Api, made: Furnished, tmp_path: Path
) -> None:
    rows = "title,brand\n" + "".join(f"Lamp {n},{'x' * 400}\n" for n in range(25_000))
    files = {"lamps.csv": rows, "chairs.csv": "title,brand\nChair Birk,Acme\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    sent: list[int] = []

    def broken(route: Route) -> None:
        if route.request.method == "PATCH":
            sent.append(int(route.request.headers["upload-offset"]))
            if len(sent) == 2:
                route.abort()
                return
        route.continue_()

    page.route("**/v1/uploads/**", broken)
    page.goto(f"{api.url}/console/new/process")
    page.locator("[data-drop] input[type=file]").set_input_files([tmp_path / name for name in files])
    page.locator("form[data-upload] button[type=submit]").click()
    links = page.locator("[data-uploads] a")
    expect(links).to_have_count(2)
    assert sent == [0, 8 << 20, 8 << 20, 0]
    sizes: dict[str, int] = {}
    for key in links.all_inner_texts():
        job = found(made.engine, key)
        with transaction(made.engine) as connection:
            row = connection.execute("SELECT source, bytes FROM processing_source WHERE job_id = %s", [job.job_id])
            sizes |= dict(row.fetchall())
    assert sizes == {name: len(text) for name, text in files.items()}
    context.close()


def test_an_upload_goes_on_after_the_server_was_killed(browser: Browser, engine: Engine, tmp_path: Path) -> None:
    url, port = engine.url.render_as_string(hide_password=False), free_port()
    file = tmp_path / "long.csv"
    file.write_text(HEADER + "".join(f",long{n}@example.org,{'x' * 100},reader,true\n" for n in range(120_000)))
    running = [served(url, port, tmp_path)]
    context = browser.new_context()
    context.set_default_timeout(60_000)
    offsets: list[int] = []

    def killed(route: Route) -> None:
        if route.request.method == "PATCH":
            offsets.append(int(route.request.headers["upload-offset"]))
            if len(offsets) == 2:
                running[-1].kill()
                running[-1].wait()
        route.continue_()

    try:
        page = context.new_page()
        page.route("**/v1/uploads/**", killed)
        page.goto(f"http://127.0.0.1:{port}/console/new/import")
        page.locator("[data-drop] input[type=file]").set_input_files(file)
        page.locator("form[data-upload] button[type=submit]").click()
        expect(page.locator("[data-uploads]")).to_contain_text("the line broke off, trying again")
        running.append(served(url, port, tmp_path))
        job = found(engine, at_job(page))
        assert offsets == [0, 8 << 20, 8 << 20], "what had arrived is not sent again"
        with transaction(engine) as connection:
            row = connection.execute("SELECT wanted_size FROM import_file WHERE job_id = %s", [job.job_id]).fetchone()
        assert row == (file.stat().st_size,)
    finally:
        context.close()
        for each in running:
            each.kill()
            each.wait()
