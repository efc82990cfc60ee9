"""Addresses of files, and the way back from an address to its key."""

from pathlib import Path

import pytest

from bulk_pipelines.distribution.files import file_urls, target
from bulk_pipelines.distribution.request import Input, day_of
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.access import Access, S3Access

ABC = Input("ABC", day_of(20240202), "CLS")
SIGNED = Access(s3=S3Access("http://127.0.0.1:1", "us-east-1", "key", "secret"))


def test_paths_are_the_seed_s() -> None:
    found = target.opened("s3://bucket/exports", SIGNED)
    key = found.key("J20260110_000777", ABC)
    assert found.path(key) == "s3://bucket/exports/2026/01/10/J20260110_000777/ABC_20240202_CLS.csv"
    assert found.key_of(found.path(key)) == key


def test_a_folder_is_a_target_too(tmp_path: Path) -> None:
    found = target.opened(str(tmp_path), Access())
    key = found.key("J20260110_1000777", ABC)
    assert found.path(key) == f"{tmp_path}/2026/01/10/J20260110_1000777/ABC_20240202_CLS.csv"
    assert found.key_of(found.path(key)) == key


@pytest.mark.parametrize("elsewhere", ["s3://bucket/export/x.csv", "s3://other/exports/x.csv", "/exports/x.csv"])
def test_a_path_of_another_target_has_no_key(elsewhere: str) -> None:
    assert target.opened("s3://bucket/exports", SIGNED).key_of(elsewhere) is None


def test_without_a_setting_files_go_below_home(tmp_path: Path) -> None:
    assert target.url_of(Settings(home=tmp_path)) == f"{tmp_path}/distribution"
    assert target.url_of(Settings(home=tmp_path, distribution_url="s3://b/p")) == "s3://b/p"


def test_a_wrong_target_names_its_setting() -> None:
    with pytest.raises(InvalidInput, match="^BULK_DISTRIBUTION_URL: "):
        target.opened("https://example.org/x", Access())


@pytest.mark.parametrize(
    ("path", "endpoint", "link"),
    [
        ("s3://b/x/a b#.csv", "http://127.0.0.1:9000/", "http://127.0.0.1:9000/b/x/a%20b%23.csv"),
        (
            "s3://b/x/a.csv",
            "",
            "https://us-east-1.console.aws.amazon.com/s3/object/b?region=us-east-1&prefix=x%2Fa.csv",
        ),
        ("/folder/a.csv", "http://127.0.0.1:9000", None),
    ],
)
def test_links_to_files(path: str, endpoint: str, link: str | None) -> None:
    settings = Settings(s3_endpoint=endpoint)
    assert file_urls.web_address(path, settings) == link
    assert (f"(<{link}>)" in file_urls.markdown(path, settings)) == (link is not None)


def test_a_name_cannot_become_markup() -> None:
    assert file_urls.escaped("a|b*c[d](e)<f>`") == "a\\|b\\*c\\[d\\](e)\\<f\\>\\`"
