"""The rules a value or a record can be held to, as data: whoever validates knows how to apply each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """The whole text matches a regular expression (RE2 syntax)."""

    regex: str
    code: str
    says: str


@dataclass(frozen=True)
class OneOf:
    """The text is one of a few."""

    values: tuple[str, ...]
    code: str

    @property
    def says(self) -> str:
        return f"one of {', '.join(self.values)}"


@dataclass(frozen=True)
class MaxLength:
    """At most so many characters."""

    characters: int
    code: str = "too_long"

    @property
    def says(self) -> str:
        return f"at most {self.characters} characters"


@dataclass(frozen=True)
class MaxWords:
    """At most so many words, which are what stands between white space."""

    words: int
    code: str

    @property
    def says(self) -> str:
        return f"at most {self.words} words"


Rule = Pattern | OneOf | MaxLength | MaxWords


@dataclass(frozen=True)
class EmptyWhen:
    """One column holds nothing while another has a certain value. A rule of the record, not of one value."""

    column: str
    when_column: str
    when_value: str
    code: str

    @property
    def says(self) -> str:
        return f"`{self.column}` is empty while `{self.when_column}` is `{self.when_value}`"
