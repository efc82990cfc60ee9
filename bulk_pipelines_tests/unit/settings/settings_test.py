"""Settings: defaults, parsing, errors that name the variable, and the documentation that is made from them."""

import subprocess
import sys
from pathlib import Path

import pytest

from bulk_pipelines import reference, settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import CHECKOUT, Settings, variables


def test_nothing_set_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = Settings(home=tmp_path / ".bulk", drops_file=tmp_path / "drops.toml")
    assert settings.load({}) == settings.load({"BULK_UI_PORT": "  "}) == wanted


def test_values_get_the_type_of_their_default(tmp_path: Path) -> None:
    given = settings.load({"BULK_UI_PORT": "3100", "BULK_HOME": str(tmp_path), "BULK_DATABASE_URL": "postgresql:///x"})
    assert (given.ui_port, given.home, given.database_url) == (3100, tmp_path, "postgresql:///x")


def test_a_relative_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings.load({"BULK_HOME": "here"}).home == tmp_path / "here"


@pytest.mark.parametrize("value", ["abc", "3000.5", "0", "-1", "65536", "nan", "1e999"])
def test_a_wrong_number_names_its_variable(value: str) -> None:
    with pytest.raises(InvalidInput, match="^BULK_UI_PORT: ") as caught:
        settings.load({"BULK_UI_PORT": value})
    assert caught.value.field == "BULK_UI_PORT"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1,5"])
def test_a_number_that_cannot_be_counted_with_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="^BULK_X: "):
        variables.parsed(value, float, {"variable": "BULK_X", "at_least": None, "at_most": None})


@pytest.mark.parametrize(("value", "meant"), [("1", True), ("Yes", True), ("off", False), ("FALSE", False)])
def test_flags(value: str, meant: bool) -> None:
    assert variables.parsed_flag(value, "BULK_X") is meant
    with pytest.raises(InvalidInput, match="^BULK_X: 'maybe'"):
        variables.parsed_flag("maybe", "BULK_X")


def test_secrets_are_never_printed() -> None:
    secret = [each for each in settings.declared() if each.metadata["secret"]]
    assert secret
    given = settings.load({each.metadata["variable"]: "s3cret" for each in secret})
    assert "s3cret" not in f"{given} {given!r}"


def test_misspelt_variables_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_UI_PROT", "1")
    monkeypatch.setenv("BULK_UI_PORT", "1")
    assert settings.unknown() == ["BULK_UI_PROT"]


def test_every_setting_is_described_once() -> None:
    described = settings.describe()
    assert len({each.variable for each in described}) == len(described) == len(list(settings.declared()))
    for each in described:
        assert each.variable.startswith("BULK_"), each
        assert each.doc.endswith("."), each


def test_no_default_or_page_shows_a_path_of_this_machine() -> None:
    assert str(CHECKOUT) not in "".join(reference.pages().values())


def test_the_generated_pages_are_those_of_the_code(tmp_path: Path) -> None:
    """A process of its own writes them, because a command that was called alone before shows other options of help."""
    subprocess.run([sys.executable, "-m", "bulk_pipelines.reference", tmp_path], check=True)
    pages = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert set(pages) >= {"settings.md", "cli.md", "json.md"}
    for name, text in pages.items():
        assert (CHECKOUT / "docs" / name).read_text() == text, f"docs/{name} is out of date: make docs"


def test_only_settings_reads_the_environment() -> None:
    readers = [
        str(path.relative_to(CHECKOUT))
        for path in sorted((CHECKOUT / "bulk_pipelines").rglob("*.py"))
        if "settings" not in path.parts and any(word in path.read_text() for word in ("os.environ", "os.getenv"))
    ]
    assert readers == []
