"""Names of all scripts become one small alphabet, and web addresses say who and where."""

import pytest

from bulk_pipelines.processing.matching.folding import acronym, compact, fold, host, site


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("Café  Zoë", "cafe zoe"),
        ("Dunkin' Donuts™", "dunkin donuts"),
        ("Straße & Söhne", "strasse sohne"),
        ("Дринкит", "drinkit"),
        ("ﬁnance №1", "finance no1"),
        ("e\u0301tude", "etude"),
        ("a\tb\x00c\u200bd", "a b c d"),
        ("हिन्दी", "hindi"),
        ("!!!", "u21 u21 u21"),
        ("", ""),
        ("  ", ""),
    ],
)
def test_a_name_is_folded(written: str, folded: str) -> None:
    assert fold(written) == folded


def test_scripts_without_latin_letters_are_not_lost() -> None:
    assert all(
        fold(name).isascii() and fold(name) for name in ("澎湖警察", "한국고속철도", "ドトール", "بنك تونس", "🙂")
    )


def test_the_legal_form_at_the_end_does_not_count_but_a_name_that_is_one_does() -> None:
    assert compact("siemens ag") == compact("siemens") == "siemens"
    assert compact("siemens co ltd") == "siemens"
    assert compact("sa") == "sa"
    assert compact("ag siemens") == "agsiemens"


def test_an_acronym_has_three_words_or_more() -> None:
    assert acronym("punjab state power corporation limited") == "pspcl"
    assert acronym("land bank") == ""


@pytest.mark.parametrize(
    ("website", "name", "country"),
    [
        ("https://www.papa-ginos.com/menu?x=1", "papaginos", ""),
        ("http://shop.example.co.uk:8080/", "example", "gb"),
        ("https://user:word@brand.de#top", "brand", "de"),
        ("www2.brand.gov.in", "brand", "in"),
        ("//brand.fr", "brand", "fr"),
        ("https://www.kure.lg.jp", "kure", "jp"),
        ("nonsense", "", ""),
        ("", "", ""),
        ("https://", "", ""),
        ("https://./", "", ""),
    ],
)
def test_a_website_says_who_and_where(website: str, name: str, country: str) -> None:
    assert site(website) == (name, country)


def test_hosts_are_compared_without_www_and_case() -> None:
    assert host("HTTPS://WWW.Example.com/a") == host("example.com") == "example.com"
