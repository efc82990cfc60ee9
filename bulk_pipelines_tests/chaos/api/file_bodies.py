"""What Schemathesis has to know of bodies that are files: they are sent as they are drawn."""

from typing import Any

import schemathesis

from bulk_pipelines.api.files.sent import PLAIN
from bulk_pipelines.api.imports.resumption import PARTIAL


def plain(_: Any, value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode("utf-8", "replace")


for kind in {*PLAIN, PARTIAL} - {"text/plain", "application/octet-stream"}:
    schemathesis.serializer(kind)(plain)
