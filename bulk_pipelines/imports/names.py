"""What the engine calls the imports of a resource."""


def name_of(resource: str) -> str:
    return f"import_{resource}"
