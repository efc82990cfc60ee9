"""The texts that cells share are the same by the quick way, which looks at bytes, and by a parser of XML."""

from xml.etree import ElementTree

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bulk_pipelines.formats import xlsx_book

PLAIN = ["<si><t>abc</t></si>", "<si><t></t></si>", '<si><t xml:space="preserve"> a b </t></si>', "<si><t>é</t></si>"]
ODD = [
    "<si><t>a&gt;b</t></si>",
    "<si><t>a>b</t></si>",
    "<si/>",
    "<si><t/></si>",
    "<si><r><t>x</t></r><r><t>y</t></r></si>",
]
BLANK = ["\n", " "]


def parsed(text: str) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(f"<sst>{text}</sst>")]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PLAIN + BLANK)) | st.lists(st.sampled_from(PLAIN + ODD)), st.booleans())
@example(["<si/>", "<si><t>a>b</t></si>", "<si><t>abc</t></si>"], True)
@example([PLAIN[2]], False)
def test_shared_texts(pieces: list[str], begins: bool) -> None:
    text = "".join(pieces)
    data = ('<?xml version="1.0"?><sst count="3">' * begins + text).encode()
    assert xlsx_book.items(data).cast(pa.string()).to_pylist() == parsed(text)


def test_the_quick_way_is_taken() -> None:
    found = xlsx_book.plain_items("".join(PLAIN).encode())
    assert found is not None
    assert found.to_pylist() == [b"abc", b"", b" a b ", "é".encode()]
