"""Forms that are none: they are refused, and are not kept in memory."""

import itertools
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pytest

from bulk_pipelines.api.files import forms
from bulk_pipelines.api.files.forms import Form
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import InvalidInput

FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
END = b"\r\n--x--\r\n"


def arrived(pieces: Iterable[bytes]) -> tuple[bytes, str | None]:
    form = Form("multipart/form-data; boundary=x", ["mode"])
    return b"".join(form.pieces(pieces)), form.name


@pytest.mark.parametrize(
    "beginning",
    [
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="',
        b"--x\r\nX: ",
        FILE + b"content\r\n--x\r\nX: ",
        FILE + b"content" + END,
        b"",
    ],
    ids=["name", "header", "second part", "behind the end", "no form"],
)
def test_what_belongs_to_no_file_is_not_kept_without_end(beginning: bytes) -> None:
    taken = 0

    def pieces() -> Iterator[bytes]:
        nonlocal taken
        for piece in itertools.chain([beginning], itertools.repeat(b"a" * 100_000, 1_000)):
            taken += len(piece)
            yield piece

    with pytest.raises(InvalidInput, match="form"):
        arrived(pieces())
    assert taken <= forms.LONGEST_BETWEEN + 200_000


LONG_HEADERS = {
    "parameters": b"; a=b",
    "semicolons": b";",
    "quotes": b'";"',
    "continued": b"; filename*0=a",
    "headers": b"\r\nX: y",
    "brackets": b"(",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", LONG_HEADERS)
def test_no_header_of_a_part_takes_long(kind: str) -> None:
    """The time for a header grows with the square of its length: half a megabyte took half a minute, with which nothing
    else in the process could go on."""
    for count in (300, 100_000):
        beginning = b'--x\r\nContent-Disposition: form-data; name="file"; filename=' + LONG_HEADERS[kind] * count
        began = time.process_time()
        with suppress(InvalidInput):
            arrived([beginning + b"\r\n\r\ncontent" + END])
        assert time.process_time() - began < 2.0


def test_a_field_is_there_once() -> None:
    field = b'--x\r\nContent-Disposition: form-data; name="mode"\r\n\r\nupsert\r\n'
    with pytest.raises(InvalidInput, match="mode: is there twice"):
        arrived([field, field, FILE, b"x", END])


def test_a_name_in_latin_1_is_refused() -> None:
    with pytest.raises(InvalidInput, match="UTF-8"):
        arrived([FILE.replace(b"a.csv", b"\xe9.csv") + b"content" + END])


def test_a_file_may_be_as_long_as_it_likes_and_have_fields_around_it() -> None:
    field = b'--x\r\nContent-Disposition: form-data; name="mode"\r\n\r\nupsert\r\n'
    content = [b"a" * 1_000_000] * 10
    for around in ([field, FILE, *content, b"\r\n"], [FILE, *content, b"\r\n", field]):
        assert arrived([*around, b"--x--\r\n"])[0] == b"".join(content)


def test_however_a_form_is_damaged_it_is_refused() -> None:
    whole = FILE + b"content" + END
    for place, byte in itertools.product(range(len(whole)), (b"\0", b"\r", b"\n", b'"', b";", b"\xff", b"")):
        damaged = whole[:place] + byte + whole[place + 1 :]
        for pieces in ([damaged], [damaged[:place], damaged[place:]]):
            with suppress(InvalidInput, Refusal):
                assert len(arrived(pieces)[0]) <= len(whole)
