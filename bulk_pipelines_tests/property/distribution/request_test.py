"""Names of files, whatever is asked for: one for each input, and never outside the job's folder."""

import posixpath
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.distribution import request
from bulk_pipelines.distribution.files import target
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.access import Access

# Short texts from few characters, so that names come close to each other; and anything at all.
NEAR = st.text("A_-.2024", min_size=1, max_size=12)
ANYTHING = st.one_of(NEAR, st.text(max_size=40), st.integers(), st.none())
DATES = st.one_of(st.sampled_from([20240202, 20240203, "20240202"]), st.integers(0, 99_999_999), ANYTHING)


def inputs_of(keys: st.SearchStrategy[Any], dates: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"indexKey": keys, "effectiveDate": dates, "asofindicator": keys})


def accepted(given: dict[str, Any]) -> request.Input | None:
    try:
        return request.checked([given])[0]
    except InvalidInput:
        return None


@given(inputs_of(NEAR, st.sampled_from([20240202, 20240203])), inputs_of(NEAR, st.sampled_from([20240202, 20240203])))
def test_different_inputs_have_different_names(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = accepted(one), accepted(other)
    if first and second:
        assert (first.name == second.name) == (first == second)


@given(inputs_of(ANYTHING, DATES))
def test_a_file_lies_in_its_job_s_folder(given: dict[str, Any]) -> None:
    found = accepted(given)
    if found is None:
        return
    key = target.opened("/folder", Access()).key("J20260110_000777", found)
    assert paths.check(key) == key
    folder, name = posixpath.split(key)
    assert (folder, name) == ("2026/01/10/J20260110_000777", f"{found.name}.csv")
    assert posixpath.normpath(key) == key
    assert request.stored(found.as_json()) == found
