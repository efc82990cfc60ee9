"""How many of something there are, in words."""


def counted(count: int, one: str, more: str = "") -> str:
    """Return `1 row`, `2 rows`. What is more than a word with an s, `more` says."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
