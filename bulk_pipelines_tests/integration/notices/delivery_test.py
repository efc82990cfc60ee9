"""Notices: an end of a job is told once to each who wants to know, signed, and again until it is taken. The receivers
are real servers that answer badly, slowly, or by leading elsewhere."""

import json
import re
import threading

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines import cli
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines.notices import outbox, sending, subscriptions
from bulk_pipelines.notices.outbox import Emptied
from bulk_pipelines.notices.request import EventType
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.notices import ME, Receiver, delivered, ended, subscribed, verify
from bulk_pipelines_tests.servers.web_server import Answer, Handler, status


def test_an_end_is_told_signed_and_once(engine: Engine) -> None:
    with Receiver() as receiver:
        made = subscribed(engine, receiver.address, EventType.JOB_ENDED)
        job = ended(engine)
        done = outbox.run_once(engine)
        assert (done.events, done.notices) == (1, 1)
        assert delivered(engine, done).status is JobState.COMPLETED
        assert outbox.run_once(engine) == Emptied(1, 0, ())  # the end of the notices' own job is told to nobody
    ((headers, body),) = receiver.received
    told = verify(made.secret, headers, body)
    assert (told["type"], told["owner"]) == ("job.ended", "me")
    assert told["data"]["job_id"] == job.job_key
    assert told["data"]["state"] == "COMPLETED"
    assert told["data"]["total_items"] == told["data"]["succeeded_items"] == 4
    assert headers["content-type"] == "application/json"


def test_each_is_told_only_what_it_wants_of_whom_it_may(engine: Engine) -> None:
    mine = subscribed(engine, "https://a.example.org/", EventType.JOB_FAILED, EventType.ERROR_RATE, error_rate=0.3)
    other = subscribed(engine, "https://b.example.org/", owner="eve")
    every = subscribed(engine, "https://c.example.org/", EventType.DEAD_LETTERS, owner="root", all_owners=True)
    ended(engine, dead=1)  # a quarter of the items
    ended(engine, dead=2)
    ended(engine, dead=4)  # the job fails
    done = outbox.run_once(engine)
    with transaction(engine) as connection:
        rows = connection.execute(
            "SELECT input ->> 'subscription', input #>> '{body,type}' FROM job_item WHERE kind = 'notice'"
        ).fetchall()
    counted = {pair: rows.count(pair) for pair in rows}
    assert counted == {
        (mine.subscription_id, "job.failed"): 1,
        (mine.subscription_id, "job.error_rate"): 2,
        (every.subscription_id, "job.dead_letters"): 3,
    }
    assert other.subscription_id not in str(rows)
    assert done.notices == 6


def test_500_then_200_is_delivered_again_under_the_same_id(engine: Engine) -> None:
    with Receiver(status(500), status(429, Retry_After="1"), status(200)) as receiver:
        made = subscribed(engine, receiver.address, EventType.JOB_ENDED)
        ended(engine)
        job = delivered(engine, outbox.run_once(engine))
    assert job.status is JobState.COMPLETED
    assert job.result == {"delivered": 1, "skipped": 0, "given_up": 0}
    told = [verify(made.secret, headers, body) for headers, body in receiver.received]
    assert len(told) == 3
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("answer", [status(302, Location="http://169.254.169.254/"), status(410)])
def test_an_answer_that_will_not_change_is_a_dead_letter_at_once(engine: Engine, answer: Answer) -> None:
    with Receiver(answer) as receiver:
        subscribed(engine, receiver.address, EventType.JOB_ENDED)
        ended(engine)
        job = delivered(engine, outbox.run_once(engine))
    assert (job.status, job.dlq_items, len(receiver.received)) == (JobState.FAILED, 1, 1)
    assert "token" not in (job.last_error or "")


def test_a_receiver_that_stays_down_leaves_dead_letters_that_can_be_tried_again(engine: Engine) -> None:
    with Receiver(*[status(503)] * 12) as receiver:
        subscribed(engine, receiver.address, EventType.JOB_ENDED)
        ended(engine)
        job = delivered(engine, outbox.run_once(engine))
        assert (job.status, len(receiver.received)) == (JobState.FAILED, 12)
        from bulk_pipelines.engine.jobs import dlq
        from bulk_pipelines.engine.jobs.dlq import Wanted

        dlq.try_again(engine, Wanted(kind="notice"), ME)
        with transaction(engine) as connection:
            jobs.start(connection, job.job_key)
        job = delivered(engine, Emptied(jobs=(job.job_key,)))
    assert job.status is JobState.COMPLETED
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 1


def test_what_leads_inside_is_refused(engine: Engine) -> None:
    """Names and addresses of this machine and of private networks, however they are written."""
    with Receiver() as receiver:
        for address in (
            receiver.address,
            f"http://localhost:{receiver.port}/",
            f"http://[::ffff:127.0.0.1]:{receiver.port}/",
        ):
            made = subscribed(engine, address, EventType.JOB_ENDED, private=False)
            with pytest.raises(Permanent, match="not a public web server"):
                sending.send(made, "evt_1", {}, Settings())
        assert receiver.received == []
    for address in (
        "ftp://a.example.org/",
        "https://me:secret@a.example.org/",
        "nonsense",
        "https:///x",
        "https://a/#b",
    ):
        with pytest.raises(InvalidInput, match="^address"):
            subscribed(engine, address)


def test_a_receiver_that_hangs_holds_nobody_for_long(engine: Engine) -> None:
    def hang(handler: Handler) -> None:
        handler.server.stopping.wait(60)

    def trickle(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not handler.server.stopping.wait(0.05):
            handler.wfile.write(b"X-Slow: 1\r\n")

    for answer in (hang, trickle):
        with Receiver(answer) as receiver:
            made = subscribed(engine, receiver.address)
            with pytest.raises(Transient, match="within 0.5 s"):
                sending.send(made, "evt_1", {"a": 1}, Settings(), most_seconds=0.5)


def test_removing_a_subscription_skips_what_is_under_way(engine: Engine) -> None:
    made = subscribed(engine, "https://a.example.org/", EventType.JOB_ENDED)
    ended(engine)
    done = outbox.run_once(engine)
    with transaction(engine) as connection:
        subscriptions.remove(connection, ME, made.subscription_id)
    assert delivered(engine, done).result == {"delivered": 0, "skipped": 1, "given_up": 0}


def test_passes_at_the_same_time_tell_everything_once(engine: Engine) -> None:
    subscribed(engine, "https://a.example.org/", EventType.JOB_ENDED)
    for _ in range(20):
        ended(engine, items=1)
    found: list[Emptied] = []
    threads = [threading.Thread(target=lambda: found.append(outbox.run_once(engine))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.append(outbox.run_once(engine))
    assert sum(each.notices for each in found) == 20
    with transaction(engine) as connection:
        row = connection.execute("SELECT count(DISTINCT input ->> 'id'), count(*) FROM job_item WHERE kind = 'notice'")
        assert row.fetchone() == (20, 20)


def test_a_pass_that_fails_loses_no_event(engine: Engine) -> None:
    subscribed(engine, "https://a.example.org/", EventType.JOB_ENDED)
    ended(engine)
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE measure RENAME TO gone")
    with pytest.raises(Exception, match="measure"):
        outbox.run_once(engine)
    with transaction(engine) as connection:
        connection.execute("ALTER TABLE gone RENAME TO measure")
    assert outbox.run_once(engine).notices == 1


def test_an_event_that_nobody_understands_holds_up_no_other(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Another program may have written it, or an older version of this one."""
    subscribed(engine, "https://a.example.org/")
    with transaction(engine) as connection:
        connection.execute(
            "INSERT INTO event (type, subject, data) VALUES ('job.ended', 'x', '{}'), ('later.type', 'y', '{}')"
        )
    ended(engine)
    with transaction(engine) as connection:
        connection.execute("UPDATE event SET data = data || '{\"error_rate\": \"much\"}' WHERE data ? 'kind'")
    done = outbox.run_once(engine)
    assert (done.events, done.notices) == (3, 1)
    assert "of x cannot be told" in caplog.text
    with transaction(engine) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM job_item WHERE kind = 'notice'").fetchone() == (1,)


def test_the_commands(engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)

    def bulk(*arguments: str) -> str:
        done = CliRunner().invoke(cli.main, ["notify", *arguments])
        return f"{done.exit_code} {done.output}"

    assert bulk("list") == "0 nobody is told of anything\n"
    with Receiver(status(204), status(500)) as receiver:
        said = bulk("add", receiver.address, "--owner", "me", "--on", "job.failed", "--on", "job.ended", "--private")
        subscription_id, secret = re.findall(r"(sub_\w+|whsec_\S+)", said)
        shown = bulk("list")
        assert subscription_id in shown
        assert "job.failed job.ended" in shown
        assert "token" not in shown
        assert secret not in shown
        (line,) = json.loads(bulk("list", "--json").partition(" ")[2])
        assert (line["subscription"], line["types"], line["silent_hours"]) == (
            subscription_id,
            ["job.failed", "job.ended"],
            24.0,
        )
        assert bulk("test", subscription_id) == "0 answered 204\n"
        assert bulk("test", subscription_id).startswith("1 Error: http://127.0.0.1")
        code, _, told = bulk("test", "--json", subscription_id).partition(" ")
        assert (code, json.loads(told)["delivered"], json.loads(told)["status"]) == ("0", True, 204)
        headers, body = receiver.received[0]
        assert verify(secret, headers, body)["type"] == "test"
    assert bulk("remove", subscription_id).startswith("0 ")
    assert bulk("remove", subscription_id).startswith("1 Error: no subscription")
    assert bulk("add", "https://a.example.org/", "--owner", "me", "--on", "source.down").startswith("1 Error: on: ")
    with transaction(engine) as connection:
        rows = connection.execute("SELECT action FROM audit ORDER BY audit_id").fetchall()
    assert rows == [("add subscription",), ("remove subscription",)]
