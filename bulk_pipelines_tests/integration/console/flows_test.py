"""What people do at the console, in a real browser."""

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import Engine

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import done, found, users
from bulk_pipelines_tests.scenes.browser import JOB, at_job, logged_in, served
from bulk_pipelines_tests.scenes.exports import worked as exported
from bulk_pipelines_tests.scenes.furnished import ADA, Furnished
from bulk_pipelines_tests.servers.processes import free_port

pytestmark = pytest.mark.long
expect.set_options(timeout=60_000)


def test_from_a_file_to_its_rows_its_rejects_mended_and_everything_exported(
    browser: Browser, api: Api, made: Furnished, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    rows = "".join(f"person{n}@example.org,Person {n},editor,true,x\n" for n in range(50))
    file.write_text("Contact,name,role,active,Notes\n" + rows + "wrong,Wrong,editor,true,x\n")
    context = logged_in(browser, api, "ada", Scope.WRITE, accept_downloads=True)
    page = context.new_page()
    page.goto(f"{api.url}/console/jobs")
    page.get_by_role("link", name="New import").click()
    page.locator("[data-drop] input[type=file]").set_input_files(file)
    preview = page.locator("[data-preview]")
    expect(preview).to_contain_text("the columns of the file do not fit users")
    expect(preview).to_contain_text("missing: email")
    preview.get_by_label("email (needed)").select_option("Contact")
    expect(preview).to_contain_text("1 of the first 51 records would be rejected")
    expect(preview.get_by_role("region", name="First records")).to_contain_text("person0@example.org")
    expect(preview).to_contain_text("Left out: Notes")
    page.locator("form[data-upload] button[type=submit]").click()
    key = at_job(page)
    expect(page.locator("#live")).to_have_attribute("data-state", "SUBMITTED")
    done(made.engine, key)
    # The page shows the end by itself, and what can be done and had from then on.
    expect(page.locator("#live")).to_have_attribute("data-state", "COMPLETED_WITH_ERRORS")
    expect(page.get_by_role("link", name="Unprocessed")).to_be_visible()
    assert page.locator("#live dd").all_inner_texts()[:3] == ["51", "50", "1"]
    page.get_by_role("link", name="Rejects", exact=True).click()
    cell = page.get_by_label("contact of line 52")
    expect(cell).to_have_attribute("aria-invalid", "true")
    cell.fill("right@example.org")
    expect(page.get_by_label("Choose line 52")).to_be_checked()
    page.get_by_role("button", name="Run the chosen again").click()
    page.wait_for_url(lambda url: bool(JOB.match(url)) and key not in url)
    again = at_job(page)
    done(made.engine, again)
    expect(page.locator("#live")).to_have_attribute("data-state", "COMPLETED")
    page.goto(f"{api.url}/console/new/export?fields=email")
    page.get_by_label("Conditions").fill("role=editor")
    page.get_by_role("textbox", name="Order").fill("email")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("region", name="First rows")).to_contain_text("person0@example.org")
    page.get_by_role("button", name="Start").click()
    job = found(made.engine, at_job(page))
    with transaction(made.engine) as connection:
        jobs.start(connection, job.job_key)
    result = exported(made.engine, job).result
    assert result is not None
    written = Path(result["location"].removeprefix("file://")).read_text().splitlines()
    assert sorted(written[1:]) == sorted([f"person{n}@example.org" for n in range(50)] + ["right@example.org"])
    page.goto(f"{api.url}/console/jobs/{key}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Failed", exact=True).click()
    assert download.value.path().read_text() == "Contact,name,role,active,Notes\nwrong,Wrong,editor,true,x\n"
    context.close()


def test_a_row_of_the_list_stays_under_the_keyboard_while_it_changes(
    browser: Browser, api: Api, made: Furnished
) -> None:
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    key = made.jobs["waiting"].job_key
    page.goto(f"{api.url}/console/jobs")
    link = page.locator(f"#{key} th a")
    link.focus()
    with transaction(made.engine) as connection:
        jobs.pause(connection, key)
    expect(page.locator(f"#{key}")).to_contain_text("paused")
    expect(link).to_be_focused()
    with transaction(made.engine) as connection:
        jobs.resume(connection, key)
    context.close()


def test_all_that_match_are_counted_and_what_passes_by_is_said(browser: Browser, api: Api, made: Furnished) -> None:
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    page.goto(f"{api.url}/console/jobs/{made.jobs['processed'].job_key}/grid")
    page.get_by_label("all 5 that match").check()
    page.get_by_role("button", name="Count only").click()
    expect(page.get_by_role("status").first).to_contain_text("1 item would be tried again. 4 items left alone")
    page.get_by_label("Choose all on this page").check()
    expect(page.get_by_text("5 chosen")).to_be_visible()
    page.get_by_role("button", name="Skip").click()
    expect(page.get_by_role("status").first).to_contain_text("0 items left out. 5 items left alone")
    context.close()


def test_a_review_is_done_by_keys(browser: Browser, api: Api, made: Furnished) -> None:
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    place = f"{api.url}/console/jobs/{made.jobs['processed'].job_key}/review"
    page.goto(place)
    expect(page.get_by_role("heading", name="Row 000000003")).to_be_visible()
    page.keyboard.press("r")
    expect(page.get_by_role("status").first).to_contain_text("is rejected for row 000000003")
    page.goto(place)
    page.goto(f"{place}?row=000000003")
    page.keyboard.press("1")
    expect(page.get_by_role("status").first).to_contain_text("is accepted for row 000000003. Its outcome is: matched.")
    page.keyboard.press("o")
    expect(page.get_by_role("status").first).to_contain_text("Nothing is decided about row 000000003.")
    page.keyboard.press("n")
    expect(page.get_by_role("status").first).to_contain_text("No candidate is right for row 000000003.")
    context.close()


def test_a_distribution_that_failed_is_redriven_from_its_dead_letter(
    browser: Browser, api: Api, made: Furnished
) -> None:
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    key = made.jobs["undistributed"].job_key
    page.goto(f"{api.url}/console/jobs/{key}")
    page.get_by_role("link", name="Redrive").click()
    expect(page.get_by_text("With fresh budgets, 1 dead letter will be tried again")).to_be_visible()
    page.get_by_role("button", name="Redrive").click()
    expect(page.get_by_text("1 dead letter tried again.")).to_be_visible()
    expect(page.locator("#live")).to_have_attribute("data-state", "RUNNING")
    context.close()


def test_two_people_see_a_pause_and_a_resume_live(browser: Browser, api: Api, made: Furnished) -> None:
    key = made.jobs["running"].job_key
    contexts = [logged_in(browser, api, "ada", Scope.WRITE), logged_in(browser, api)]
    pages = [context.new_page() for context in contexts]
    pages[0].goto(f"{api.url}/console/jobs/{key}")
    pages[1].goto(f"{api.url}/console/jobs")
    pages[0].get_by_role("link", name="Pause").click()
    pages[0].get_by_role("button", name="Pause").click()
    expect(pages[1].locator(f"#{key}")).to_contain_text("paused")
    pages[0].goto(f"{api.url}/console/jobs/{key}")
    with transaction(made.engine) as connection:
        jobs.resume(connection, key, ADA)
    expect(pages[0].locator("#live")).to_have_attribute("data-state", "RUNNING")
    expect(pages[1].locator(f"#{key}")).to_contain_text("running")
    for context in contexts:
        context.close()


def test_a_page_whose_session_is_over_leads_to_the_login_and_back(browser: Browser, api: Api, made: Furnished) -> None:
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    place = f"{api.url}/console/jobs/{made.jobs['running'].job_key}"
    page.goto(place)
    with transaction(made.engine) as connection:
        connection.execute("DELETE FROM console_session")
    page.wait_for_url("**/console/login?next=*")
    page.get_by_label("API key").fill(api.text("ada"))
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(place)
    context.close()


def test_keys_lead_through_a_page(browser: Browser, api: Api) -> None:
    context = logged_in(browser, api)
    page = context.new_page()
    page.goto(f"{api.url}/console/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the page")).to_be_focused()
    page.keyboard.press("j")
    first = page.locator("tbody th a").first
    expect(first).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.type("partners")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    context.close()


def test_a_page_recovers_by_itself_when_the_server_is_killed_and_back(
    browser: Browser, engine: Engine, tmp_path: Path
) -> None:
    url, port = engine.url.render_as_string(hide_password=False), free_port()
    running = served(url, port, tmp_path)
    context = browser.new_context()
    context.set_default_timeout(60_000)
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        options = {"params": {"resource": "users"}, "headers": {"Content-Type": "text/csv"}}
        key = httpx.post(f"http://127.0.0.1:{port}/v1/imports", content=users(1), **options).json()["job_id"]  # type: ignore[arg-type]
        page.goto(f"http://127.0.0.1:{port}/console/jobs/{key}")
        running.kill()
        running.wait()
        expect(page.locator("#lost")).to_be_visible()
        with transaction(engine) as connection:
            jobs.pause(connection, key)
        running = served(url, port, tmp_path)
        expect(page.locator("#live")).to_have_attribute("data-state", "PAUSED")
        expect(page.locator("#lost")).to_be_hidden()
    finally:
        context.close()
        running.kill()
        running.wait()


def test_what_a_preview_proposes_stays_until_somebody_changes_it(
    browser: Browser, api: Api, made: Furnished, tmp_path: Path
) -> None:
    file, other = tmp_path / "people.csv", tmp_path / "other.csv"
    rows = "".join(f"kept{n}@example.org;Kept {n};editor;\n" for n in range(3))
    file.write_text("Report\nE-Mail;name;role\n" + rows)
    other.write_text("email,name,role,more\nother@example.org,Other,reader,x\n")
    context = logged_in(browser, api, "ada", Scope.WRITE)
    page = context.new_page()
    page.goto(f"{api.url}/console/new/import")
    form = page.locator("form[data-upload]")
    form.locator("input[type=file]").set_input_files(other)
    extra = form.get_by_label("Ignore extra")
    expect(extra).to_be_checked()
    form.locator("input[type=file]").set_input_files(file)
    preview = page.locator("[data-preview]")
    expect(preview).to_contain_text("field 4")
    expect(extra).not_to_be_checked()
    expect(form.get_by_label("Skip lines")).to_have_value("2")
    expect(form.get_by_label("No header")).to_be_checked()
    expect(form.get_by_label("Fields", exact=True)).to_have_value("E-Mail,name,role,field 4")
    # Looked at again because something else was changed: nothing is proposed any more, and what was proposed is kept.
    form.get_by_label("Mode").select_option("upsert")
    expect(preview).not_to_contain_text("They are set for you")
    expect(preview).to_contain_text("None of the first 3 records would be rejected")
    form.get_by_label("Spellings of no value").fill("n/a\n-")
    form.get_by_role("button", name="Start").click()
    job = found(made.engine, at_job(page))
    assert (job.params["mode"], job.params["reading"]["nulls"]) == ("upsert", ["n/a", "-"])
    assert done(made.engine, job.job_key).status == "COMPLETED"
    context.close()
