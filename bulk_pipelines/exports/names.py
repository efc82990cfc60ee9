"""The names of the kinds of job that exports are."""


def name_of(resource: str) -> str:
    return f"export_{resource}"
