"""Notices over HTTP: who may be told of what, and a trial that says what the receiver answered."""

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.servers.web_server import Handler, WebServer

HOOK = {"address": "https://example.org/hook?token=t", "types": ["job.failed", "job.ended"]}


def test_a_subscription_is_made_listed_tried_and_removed(api: Api) -> None:
    ada, eve = api.client("ada"), api.client("eve")
    made = ada.post("/v1/subscriptions", json=HOOK)
    assert made.status_code == 201, made.text
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    place = made.headers["Location"]
    shown = ada.get(place).json()
    assert (shown["owner"], shown["address"], shown["types"]) == ("ada", "https://example.org/…", HOOK["types"])
    assert [each["subscription_id"] for each in ada.get("/v1/subscriptions").json()["subscriptions"]] == [
        shown["subscription_id"]
    ]
    assert secret not in ada.get("/v1/subscriptions").text
    assert eve.get("/v1/subscriptions").json() == {"subscriptions": []}
    assert len(api.admin.get("/v1/subscriptions").json()["subscriptions"]) == 1
    assert eve.delete(place).status_code == 404
    assert ada.delete(place).status_code == 204
    assert ada.get(place).status_code == 404
    assert count(api.engine, "SELECT count(*) FROM audit WHERE action LIKE '% subscription' AND actor = 'ada'") == 2


def test_who_may_be_told_of_what(api: Api) -> None:
    ada = api.client("ada")
    for more in ({"private": True}, {"all_owners": True}):
        assert ada.post("/v1/subscriptions", json=HOOK | more).status_code == 403
    assert ada.post("/v1/subscriptions", json=HOOK, params={"owner": "eve"}).status_code == 403
    wrong = ada.post("/v1/subscriptions", json=HOOK | {"address": "ftp://example.org"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "address")
    assert ada.post("/v1/subscriptions", json=HOOK | {"types": ["source.down"]}).status_code == 400
    for_eve = api.admin.post("/v1/subscriptions", json=HOOK | {"private": True}, params={"owner": "eve"})
    assert for_eve.json()["owner"] == "eve"
    assert len(api.client("eve", Scope.READ).get("/v1/subscriptions").json()["subscriptions"]) == 1


class Hook(Handler):
    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/good" else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_trial_says_what_was_answered(api: Api) -> None:
    with WebServer() as server:
        server.server.RequestHandlerClass = Hook
        for path, delivered in (("good", True), ("bad", False)):
            hook = HOOK | {"address": f"{server.url}/{path}", "private": True}
            place = api.admin.post("/v1/subscriptions", json=hook).headers["Location"]
            told = api.admin.post(f"{place}/test")
            assert (told.status_code, told.json()["delivered"]) == (200, delivered), told.text
            assert told.json()["status"] == (200 if delivered else None)
    inside = api.client("ada").post("/v1/subscriptions", json=HOOK | {"address": f"{server.url}/good"})
    told = api.client("ada").post(f"{inside.headers['Location']}/test").json()
    assert told["delivered"] is False, "nobody reaches into our own network"
