"""The encodings of text files. A file in another encoding than UTF-8 is landed in UTF-8."""

import codecs
from collections.abc import Iterator

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.unfit import Unfit

MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The byte order marks, a longer one before one that it begins with."""
KEPT = "kept"
"""The name under which `kept` deals with wrong bytes: they stay wrong, so that only their record is rejected."""
FIRST_BYTES = 16
"""How many bytes are looked at to recognise UTF-16 that has no byte order mark."""
LETTERS = frozenset(b"\x8a\x8c\x8e\x9a\x9c\x9e\x9f" + bytes(range(0xC0, 0x100))) - frozenset(b"\xd7\xf7")


def kept(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(chr(0xDC00 + (byte if byte >= 0x80 else 0xFF)) for byte in wrong), error.end


codecs.register_error(KEPT, kept)


def found(head: bytes, told: str | None) -> str | None:
    """Return the encoding of a file that begins with these bytes, None for UTF-8. A byte order mark is certain; if it
    is another one than was told, raise `InvalidInput`."""
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    if told is None:
        if marked is None and is_western(head):
            raise Unfit(
                "encoding",
                "the file is not UTF-8, and looks like Western European text of Windows: say --encoding cp1252, or what"
                " else it is; --encoding utf-8 rejects only the records with wrong bytes",
                {"encoding": "cp1252"},
            )
        if marked is None and (wide := wide_one(head)) is not None:
            raise Unfit(
                "encoding",
                f"the file looks like UTF-16 without a byte order mark: say --encoding {wide}",
                {"encoding": wide},
            )
        return None if marked == "utf-8" else marked
    name = codecs.lookup(told).name
    if marked is not None and not name.startswith(marked):
        raise InvalidInput("encoding", f"the file was said to be {told}, but begins with the mark of {marked}")
    return None if name in {"utf-8", "utf-8-sig", "ascii"} else name


def wide_one(head: bytes) -> str | None:
    """Return the form of UTF-16 that a text is in. Return None if it is in neither, or if its first characters are not
    all ASCII."""
    first = head[:FIRST_BYTES]
    for name, zeros, others in (("utf-16-le", first[1::2], first[::2]), ("utf-16-be", first[::2], first[1::2])):
        if zeros and not any(zeros) and all(others):
            return name
    return None


def is_western(head: bytes) -> bool:
    """Tell whether the text has bytes beyond ASCII, none of which belongs to a character of UTF-8, and each of which
    would be a letter beside a letter."""
    if head.isascii():
        return False
    places = [place for place, byte in enumerate(head) if byte >= 0x80][:1_000]
    for place in places:
        if is_utf8_at(head, place):
            return False
    near = [head[max(0, place - 1) : place] + head[place + 1 : place + 2] for place in places]
    return all(head[place] in LETTERS for place in places) and all(any_letter(each) for each in near)


def any_letter(near: bytes) -> bool:
    return any(chr(byte).isalpha() for byte in near if byte < 0x80)


def is_utf8_at(head: bytes, place: int) -> bool:
    """Tell whether the byte belongs to a character of UTF-8."""
    for start in range(max(0, place - 3), place + 1):
        for length in (2, 3, 4):
            try:
                if start + length > place and len(head[start : start + length].decode()) == 1:
                    return True
            except UnicodeDecodeError:
                continue
    return False


def transcoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the text in UTF-8, without a byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)(KEPT)
    begun = False
    for piece in pieces:
        text = decoder.decode(piece)
        if text and not begun:
            text, begun = text.removeprefix("\ufeff"), True
        if text:
            yield text.encode("utf-8", "surrogateescape")
    text = decoder.decode(b"", final=True)
    yield text.encode("utf-8", "surrogateescape")
