"""The ledger forgets what is gone from its source for long, and never what would be taken again."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import retention
from bulk_pipelines.drops.sources import After
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import contract
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines_tests.scenes.inbox import Inbox

CHOSEN = Settings(keep_drops_days=90)


@pytest.fixture
def inbox(engine: Engine, tmp_path: Path) -> Inbox:
    made = Inbox(engine, tmp_path / "inbox")
    made.set(after=After.LEAVE)
    return made


def loaded(inbox: Inbox, *names: str) -> None:
    """Drop files, and have them taken and imported; the files stay where they are."""
    for name in names:
        inbox.drop(name)
    assert inbox.look().taken == len(names)
    inbox.end_jobs(JobEvent.COMPLETE, {"files": []})
    inbox.clear_up()


def days_pass(engine: Engine, days: int) -> None:
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE file_drop SET ended_at = ended_at - make_interval(days => %(days)s),"
            " seen_at = seen_at - make_interval(days => %(days)s),"
            " first_seen_at = first_seen_at - make_interval(days => %(days)s);",
            {"days": days},
        )
        connection.execute("UPDATE drop_source SET whole_look_at = whole_look_at - make_interval(days => %s)", [days])


def pruned(engine: Engine) -> int:
    """What a dry run says, and the real one then does."""
    told = retention.prune_ledger(engine, CHOSEN, True)
    assert retention.prune_ledger(engine, CHOSEN, False) == told
    assert retention.prune_ledger(engine, CHOSEN, True) == 0
    return told


def test_a_file_that_lies_there_is_never_forgotten_and_so_never_taken_again(inbox: Inbox, engine: Engine) -> None:
    loaded(inbox, "users_1.csv", "users_2.csv")
    (inbox.folder / "users_2.csv").unlink()
    for _ in range(3):
        days_pass(engine, 91)
        inbox.look()
        pruned(engine)
        assert inbox.statuses() == {"users_1.csv": "DONE"}
        assert inbox.look().taken == 0
    assert inbox.taken() == [["users_1.csv", "users_2.csv"]]


def test_entries_go_in_bounded_pieces(inbox: Inbox, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_A_TIME", 3)
    names = [f"users_{number}.csv" for number in range(10)]
    loaded(inbox, *names)
    for name in names[:8]:
        (inbox.folder / name).unlink()
    assert pruned(engine) == 0, "not for as long as it is kept"
    days_pass(engine, 91)
    inbox.look()
    assert pruned(engine) == 8


def test_without_a_look_that_saw_the_whole_source_nothing_is_forgotten(inbox: Inbox, engine: Engine) -> None:
    """The source was down for all the time, or taken out of the configuration: its files may be there all the same."""
    loaded(inbox, "users.csv")
    days_pass(engine, 91)
    assert pruned(engine) == 0

    def down() -> Storage:
        raise Unavailable("it is down")

    assert inbox.look(open_storage=down).skipped
    assert pruned(engine) == 0
    with transaction(engine) as connection:
        connection.execute("UPDATE drop_source SET retry_at = now()")
    assert inbox.look().taken == 0
    assert pruned(engine) == 0
    assert inbox.look().taken == 0


def test_a_listing_that_is_cut_short_says_nothing_of_what_it_did_not_see(
    inbox: Inbox, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(inbox, *(f"users_{number}.csv" for number in range(6)))
    days_pass(engine, 91)
    monkeypatch.setattr(contract, "PAGE", 2)
    assert inbox.look(seconds=-1.0).cut_short
    assert pruned(engine) == 0
    monkeypatch.undo()
    assert inbox.look().taken == 0


def test_files_of_a_rule_that_was_taken_out_are_not_forgotten(inbox: Inbox, engine: Engine) -> None:
    loaded(inbox, "users.csv")
    rules = inbox.source.rules
    inbox.set(rules=[rule for rule in rules if rule.resource != "users"])
    days_pass(engine, 91)
    assert inbox.look().unmatched == 1
    assert pruned(engine) == 0
    inbox.set(rules=rules)
    assert inbox.look().taken == 0


def test_a_version_that_was_replaced_is_forgotten_the_one_that_is_there_is_not(inbox: Inbox, engine: Engine) -> None:
    loaded(inbox, "users.csv")
    (inbox.folder / "users.csv").write_text("id\n1\n2\n3\n")
    assert inbox.look().taken == 1
    inbox.end_jobs(JobEvent.COMPLETE, {"files": []})
    inbox.clear_up()
    days_pass(engine, 91)
    inbox.look()
    assert pruned(engine) == 1
    assert inbox.look().taken == 0


def test_what_is_taken_or_watched_stays(inbox: Inbox, engine: Engine) -> None:
    inbox.drop("users.csv")
    inbox.look()
    inbox.drop("articles.csv.part")
    (inbox.folder / "users.csv").unlink()
    days_pass(engine, 400)
    inbox.look()
    assert pruned(engine) == 0
    assert inbox.statuses() == {"users.csv": "TAKEN"}
