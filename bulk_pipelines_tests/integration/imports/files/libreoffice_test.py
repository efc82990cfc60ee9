"""One sheet as LibreOffice 7.4 saves it, with its settings for Germany and for the United States: as a workbook, and as
the texts that people choose in its dialog. A preview tells how each is read, and all come to the same rows.

The files lie in `libreoffice/`. The German one is cp1252 with semicolons, decimal commas and dates such as 04.01.2026;
the English one UTF-16 with tabs and dates such as 1/4/2026; the third has quotes around all texts.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.imports.report.preview import preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.whole_imports import imported

pytestmark = pytest.mark.usefixtures("home")

FILES = Path(__file__).parent / "libreoffice"
NOTES = [None, 'say "hi"; twice', "two\nlines", "tab\there", None, "ends with space ", " , ", "5,5"]


def row(number: int) -> tuple[Any, ...]:
    return (
        number,
        f"Müller & Söhne {number}",
        round(Decimal("1234.57") * number, 2) if number % 5 else None,
        date(2026, 1, 1) + timedelta(days=3 * number),
        datetime.fromisoformat("2026-01-01T08:15:30") + timedelta(hours=7 * number),
        NOTES[number % 8],
        f"{number:05}",
    )


@pytest.mark.parametrize(
    ("name", "read_with"),
    [
        ("orders.xlsx", {}),
        ("german.csv", {"encoding": "cp1252", "decimal": ",", "dates": [["ordered", "%d.%m.%Y"]]}),
        ("english-utf-16.csv", {"dates": [["ordered", "%m/%d/%Y"]]}),
        ("quoted.csv", {"dates": [["ordered", "%m/%d/%Y"]]}),
    ],
)
def test_a_sheet_as_libreoffice_saves_it(engine: Engine, name: str, read_with: dict[str, Any]) -> None:
    shop = shops.opened(engine)
    shop.do(
        "CREATE TABLE shop.orders_of_partner (order_no integer PRIMARY KEY, who text NOT NULL, total numeric(10, 2),"
        " ordered date NOT NULL, made_at timestamp NOT NULL, note text, code char(5) NOT NULL)"
    )
    declared = shop.declared("shop.orders_of_partner")
    options = Options(declared.name, declaration=declared)
    found = preview(engine, options, RequestedFile.of(str(FILES / name)), settings.current())
    assert (found.reading.as_params(), found.rejected) == (read_with, 0)
    imported(engine, declared.name, FILES / name, declaration=declared, reading=found.reading)
    assert shop.query("SELECT * FROM shop.orders_of_partner ORDER BY order_no") == [row(each) for each in range(1, 21)]
