"""Looks at sources as they are: odd names, folders that must not be read, files that no rule is for, and old ones."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import retention, showing
from bulk_pipelines.drops.showing import Listed
from bulk_pipelines.drops.sources import After, Rule
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.contract import Page, Storage
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.inbox import Inbox
from bulk_pipelines_tests.scenes.privileges import modes_hold
from bulk_pipelines_tests.servers.processes import LoginServer, Place, S3Server
from bulk_pipelines_tests.servers.slow_line import slow_line

ROUND_TRIP = 0.020


def opening(place: Place) -> Callable[[], Storage]:
    return lambda: locations.folder(place.url, place.access)


def shown(engine: Engine, status: str | None = None) -> dict[str, str]:
    """What `bulk drops list` shows: the status of each path."""
    return {each.path: each.status for each in page(engine, status)}


def page(engine: Engine, status: str | None = None) -> list[Listed]:
    with transaction(engine) as connection:
        return showing.page(connection, None, status, 1_000)


class Guarded(LocalStorage):
    """Folders that must not be read are not read by root either."""

    def pages(self, pattern: str = "**", aside: Collection[str] = ()) -> Iterator[Page]:
        with modes_hold():
            found = list(super().pages(pattern, aside))
        return iter(found)


def test_odd_keys_do_not_stop_a_bucket(inbox: Inbox, any_key_s3_server: S3Server) -> None:
    """Though a rule is for them."""
    odd = ["users//1.csv", "users/../2.csv", "users/./3.csv", "users\x07.csv", "users\\4.csv", f"users{'x' * 251}"]
    bucket = any_key_s3_server.bucket()
    for key in [*odd, "users_1.csv", "users_folder/", "users/5.csv"]:
        any_key_s3_server.client.put_object(
            Bucket=bucket.url.removeprefix("s3://"), Key=key, Body=b"" if key.endswith("/") else b"id\n"
        )
    inbox.set(rules=(Rule("**/users*", "users"), Rule("users/**", "users")))
    looked = inbox.look(open_storage=opening(bucket))
    assert (looked.seen, looked.taken, looked.left_out, looked.unmatched) == (2, 2, len(odd), 0)
    assert sorted(name for job in inbox.taken() for name in job) == ["5.csv", "users_1.csv"]
    assert all(repr(key) in str(looked) for key in odd)
    assert str(looked).isprintable()
    assert inbox.look(open_storage=opening(bucket)).left_out == len(odd)


def test_what_no_rule_is_for_is_named(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("users.csv")
    inbox.drop("usres.csv")
    inbox.drop("in/notes.txt")
    looked = inbox.look()
    assert (looked.taken, looked.unmatched) == (1, 2)
    assert "'usres.csv'" in str(looked)
    assert "'in/notes.txt'" in str(looked)
    unmatched = {"in/notes.txt": "UNMATCHED", "usres.csv": "UNMATCHED"}
    assert shown(engine) == {"users.csv": "TAKEN", **unmatched}
    assert shown(engine, "UNMATCHED") == unmatched
    assert shown(engine, "TAKEN") == {"users.csv": "TAKEN"}
    assert {each.note for each in page(engine, "UNMATCHED")} == {"no rule of this source is for it"}


def test_what_no_rule_is_for_is_named_until_it_is_gone_or_has_one(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("usres.csv")
    inbox.drop("notes.txt")
    inbox.look()
    (inbox.folder / "notes.txt").unlink()
    inbox.look(seconds=-1.0)
    assert shown(engine) == {"usres.csv": "UNMATCHED", "notes.txt": "UNMATCHED"}, "it was cut short, and tells nothing"
    inbox.look()
    assert shown(engine) == {"usres.csv": "UNMATCHED"}
    inbox.set(rules=(Rule("us*", "users"),))
    inbox.look()
    assert shown(engine) == {"usres.csv": "TAKEN"}


def test_thousands_that_no_rule_is_for_are_counted_and_some_are_named(inbox: Inbox, engine: Engine) -> None:
    for number in range(1_200):
        inbox.drop(f"n{number}.txt", "")
    for _ in range(2):
        looked = inbox.look()
        assert looked.unmatched == 1_200
        assert str(looked).count(".txt") == 10
        assert "and 1190 more" in str(looked)
        assert len(shown(engine)) == 1_000


def test_what_a_source_had_that_nobody_looks_at_any_more_is_forgotten(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("notes.txt")
    inbox.look()
    chosen = Settings(keep_drops_days=90)
    retention.prune_ledger(engine, chosen, False)
    assert shown(engine) == {"notes.txt": "UNMATCHED"}
    with transaction(engine) as connection:
        connection.execute("UPDATE drop_source SET looked_at = now() - interval '91 days'")
    retention.prune_ledger(engine, chosen, False)
    assert shown(engine) == {}


def test_a_folder_that_must_not_be_read_does_not_stop_the_others(inbox: Inbox) -> None:
    inbox.drop("users.csv")
    (inbox.folder / "lost+found").mkdir(mode=0o000)
    looked = inbox.look(open_storage=lambda: Guarded(inbox.folder))
    assert (looked.taken, looked.left_out, looked.cut_short) == (1, 1, False)
    assert "1 left out ('lost+found' cannot be listed: Permission denied)" in str(looked)


def test_what_lies_where_nobody_can_look_is_not_forgotten(inbox: Inbox, engine: Engine) -> None:
    """Neither what is watched nor what was dealt with, which would be taken again."""
    inbox.set(after=After.LEAVE, rules=(Rule("**/users*", "users"),), settle_seconds=600.0)
    inbox.drop("closed/users_1.csv")
    inbox.drop("open/users_2.csv")
    inbox.look()
    inbox.set(settle_seconds=0.0)
    inbox.look()
    inbox.end_jobs(JobEvent.COMPLETE, {"files": []})
    inbox.clear_up()
    inbox.set(settle_seconds=600.0)
    inbox.drop("closed/users_3.csv")
    inbox.drop("open/users_4.csv")
    inbox.look()
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE file_drop SET ended_at = ended_at - interval '91 days', seen_at = seen_at - interval '91 days'"
        )
    for name in ("open/users_2.csv", "open/users_4.csv"):
        (inbox.folder / name).unlink()
    closed = inbox.folder / "closed"
    closed.chmod(0o000)
    looked = inbox.look(open_storage=lambda: Guarded(inbox.folder))
    assert looked.vanished == ("open/users_4.csv",)
    assert inbox.statuses()["closed/users_3.csv"] == "WATCHED"
    chosen = Settings(keep_drops_days=90)
    assert retention.prune_ledger(engine, chosen, True) == 1
    assert retention.prune_ledger(engine, chosen, False) == 1
    assert set(inbox.statuses()) == {"closed/users_1.csv", "closed/users_3.csv", "open/users_4.csv"}
    closed.chmod(0o700)
    inbox.set(settle_seconds=0.0)
    inbox.look()
    assert inbox.look().taken + inbox.look().taken == 0
    assert inbox.statuses() == {
        "closed/users_1.csv": "DONE",
        "closed/users_3.csv": "TAKEN",
        "open/users_4.csv": "VANISHED",
    }


def test_a_look_keeps_its_time_whatever_it_lists(inbox: Inbox, ftp_server: LoginServer) -> None:
    """Hundreds of folders without a file, over a long line."""
    place = ftp_server.place()
    assert place.folder is not None
    for number in range(500):
        (place.folder / f"{number}").mkdir()
    with slow_line(ftp_server.port, ROUND_TRIP) as port:
        far = replace(place, url=place.url.replace(f":{ftp_server.port}/", f":{port}/"))
        began = time.monotonic()
        looked = inbox.look(open_storage=opening(far), seconds=2.0)
        took = time.monotonic() - began
    assert looked.cut_short
    assert took < 10.0


def test_ten_thousand_old_imports_cost_a_look_nothing(inbox: Inbox, ftp_server: LoginServer) -> None:
    """The old imports lie as `move` leaves them, each in a folder of its own. A look costs two listings, a second of
    settling, and what is taken."""
    place = ftp_server.place()
    assert place.folder is not None
    for number in range(10_000):
        folder = place.folder / ("done" if number % 10 else "failed") / f"J{number:05}"
        folder.mkdir(parents=True)
        (folder / "users.csv").write_bytes(b"id\n")
    (place.folder / "users.csv").write_bytes(b"id\n")
    with slow_line(ftp_server.port, ROUND_TRIP) as port:
        far = replace(place, url=place.url.replace(f":{ftp_server.port}/", f":{port}/"))
        began = time.monotonic()
        looked = inbox.look(open_storage=opening(far))
        took = time.monotonic() - began
    assert (looked.seen, looked.taken, looked.cut_short) == (1, 1, False)
    print(f"a look beside 10,000 old imports: {took:.2f} s")
    assert took < 10.0
