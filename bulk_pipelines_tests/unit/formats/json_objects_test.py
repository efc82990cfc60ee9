"""What is refused of JSON although Python's parser takes it."""

import pytest

from bulk_pipelines.formats.json_objects import Doubled, pairs_once


@pytest.mark.timeout(10)
def test_a_doubled_name_is_found_soon_however_many_there_are() -> None:
    """A record may have as many names as a megabyte can hold: to count each of them anew would take minutes."""
    pairs = [(f"name {number}", None) for number in range(50_000)]
    with pytest.raises(Doubled, match="'name 49999' is given twice"):
        pairs_once([*pairs, pairs[-1]])
