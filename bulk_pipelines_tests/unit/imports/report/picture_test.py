"""The picture of an import's batches."""

import base64
import xml.etree.ElementTree as ET

from bulk_pipelines.imports.report import picture
from bulk_pipelines.imports.report.picture import Batch


def drawn(*batches: Batch) -> ET.Element:
    shown = picture.markdown(batches)
    assert shown.startswith("![rows and seconds of each batch](data:image/svg+xml;base64,")
    return ET.fromstring(base64.b64decode(shown.partition("base64,")[2].rstrip(")")))


def test_a_line_of_rows_and_one_of_seconds() -> None:
    root = drawn(Batch(1_000, 0.5), Batch(4_000, 0.25), Batch(2_000, 1.0))
    assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == [
        "rows a batch, at most 4,000",
        "seconds a batch, at most 1.00",
        "3 batches",
    ]
    rows, seconds = [line.attrib["points"].split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    heights = [[float(point.split(",")[1]) for point in line] for line in (rows, seconds)]
    assert heights[0][1] < heights[0][2] < heights[0][0], "the most rows stand highest"
    assert heights[1][2] < heights[1][0] < heights[1][1], "so do the most seconds"


def test_thousands_of_batches_are_thinned_out() -> None:
    root = drawn(*(Batch(number, number / 10) for number in range(10_000)))
    line = next(root.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(line.attrib["points"].split()) <= picture.MOST_POINTS


def test_what_needs_no_picture() -> None:
    assert picture.markdown([]) == "no batches"
    assert picture.markdown([Batch(1_234, 0.5)]) == "one batch of 1,234 rows in 0.50 s"
