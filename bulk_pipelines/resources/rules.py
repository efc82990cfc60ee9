"""The rules for values and records, as data. The code that validates knows how to apply each of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """The text matches a regular expression (RE2 syntax). This must begin with ^ and end with $, so that the whole text
    is matched."""

    regex: str
    code: str
    says: str


@dataclass(frozen=True)
class OneOf:
    """The text is one of a few values."""

    values: tuple[str, ...]
    code: str

    @property
    def says(self) -> str:
        return f"one of {', '.join(self.values)}"


@dataclass(frozen=True)
class MaxLength:
    """The text has at most so many characters."""

    characters: int
    code: str = "too_long"

    @property
    def says(self) -> str:
        return f"at most {self.characters} characters"


@dataclass(frozen=True)
class MaxWords:
    """The text has at most so many words. A word is what stands between white space."""

    words: int
    code: str

    @property
    def says(self) -> str:
        return f"at most {self.words} words"


Rule = Pattern | OneOf | MaxLength | MaxWords


@dataclass(frozen=True)
class EmptyWhen:
    """One column holds nothing while another has a certain value. This is a rule for the record, not for one value."""

    column: str
    when_column: str
    when_value: str
    code: str

    @property
    def says(self) -> str:
        return f"`{self.column}` is empty while `{self.when_column}` is `{self.when_value}`"
