"""The forms of a query."""

import pytest

from bulk_pipelines.processing.recipes.forms import Form, formed


@pytest.mark.parametrize(
    ("form", "text", "made"),
    [
        (Form.WRITTEN, "Acme, Inc.", "Acme, Inc."),
        (Form.STRIPPED, "Acme, Inc.", "Acme"),
        (Form.STRIPPED, "Acme Widgets GmbH & Co. KG", "Acme Widgets GmbH &"),
        (Form.STRIPPED, "Volt S.A.", "Volt"),
        (Form.STRIPPED, "AG", None),
        (Form.STRIPPED, "Acme", None),
        (Form.STRIPPED, "", None),
        (Form.INVERTED, "Lovelace, Ada", "Ada Lovelace"),
        (Form.INVERTED, "Acme, Inc.", None),
        (Form.INVERTED, "a, b, c", None),
        (Form.INVERTED, "Lovelace,", None),
        (Form.TRANSLITERATED, "Газпром", "Gazprom"),
        (Form.TRANSLITERATED, "Acme", None),
        (Form.ACRONYM, "Bayerische Motoren Werke", "BMW"),
        (Form.ACRONYM, "Two Words", None),
        (Form.ACRONYM, "\U0001f600", None),
    ],
)
def test_forms(form: Form, text: str, made: str | None) -> None:
    assert formed(form, text) == made
