"""How requests with a file are described for programs: its fields stand in the address or in the form."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from bulk_pipelines.api.files.sent import PLAIN

BINARY = {"type": "string", "format": "binary"}


def sent(
    fields: Mapping[str, str],
    example: Mapping[str, str],
    address: type[BaseModel] | None = None,
    example_address: Mapping[str, str] | None = None,
    *,
    required: bool = True,
) -> dict[str, Any]:
    """Describe a request that sends a file in a form or as the body. With `address`, a body of JSON may instead say
    where the file is."""
    options = {
        name: {"type": "string", "description": says, **({"example": example[name]} if name in example else {})}
        for name, says in fields.items()
    }
    form = {"type": "object", "required": ["file"], "properties": {"file": BINARY, **options}}
    content: dict[str, Any] = {"multipart/form-data": {"schema": form}, **{kind: {"schema": BINARY} for kind in PLAIN}}
    if address is not None:
        content["application/json"] = {
            "schema": address.model_json_schema(),
            "example": {**example, **(example_address or {})},
        }
    says = "The file in a form, or the file as the body" + ("." if address is None else "; or where the file is.")
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "description": says, "schema": {"type": "string"}}
            for name, says in fields.items()
        ],
        "requestBody": {"required": required, "description": says, "content": content},
    }
