"""What a request may say of its own identity."""

import pytest

from bulk_pipelines.api.serving.tracing import trace_of
from bulk_pipelines.engine.jobs.submission import TRACE_PARENT

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_what_is_given_is_kept() -> None:
    found = trace_of([(b"x-request-id", b"order/42-a.b:c"), (b"traceparent", PARENT.encode())])
    assert found.request_id == "order/42-a.b:c"
    assert found.trace_parent.split("-")[1] == PARENT.split("-")[1]
    assert found.trace_parent != PARENT, "the request is a span of its own"
    assert TRACE_PARENT.fullmatch(found.trace_parent)


@pytest.mark.parametrize(
    "request_id", ["", " ", "a b", "x" * 129, 'a"b', "a\x1b[31m", "{{7*7}}", "ä", "a,b", "<script>", "a;b"]
)
def test_an_identity_that_could_do_harm_is_made_anew(request_id: str) -> None:
    first, second = (trace_of([(b"x-request-id", request_id.encode("latin-1"))]) for _ in range(2))
    assert first.request_id not in (request_id, second.request_id)


@pytest.mark.parametrize(
    "parent", ["", "00", PARENT.upper(), PARENT + "-", f"00-{'0' * 32}-00f067aa0ba902b7-01", "ff" + PARENT[2:]]
)
def test_a_trace_that_is_none_is_made_anew(parent: str) -> None:
    found = trace_of([(b"traceparent", parent.encode())])
    assert TRACE_PARENT.fullmatch(found.trace_parent)
    assert found.trace_parent.split("-")[1] not in parent.lower() or not parent


def test_a_trace_of_a_later_version_goes_on_in_the_one_that_we_know() -> None:
    found = trace_of([(b"traceparent", b"cc" + PARENT[2:].encode())])
    assert found.trace_parent.startswith(PARENT[:35])


def test_an_identity_that_is_there_twice_is_made_anew() -> None:
    found = trace_of([(b"x-request-id", b"a"), (b"x-request-id", b"b"), *[(b"traceparent", PARENT.encode())] * 2])
    assert found.request_id not in ("a", "b")
    assert found.trace_parent.split("-")[1] != PARENT.split("-")[1]
