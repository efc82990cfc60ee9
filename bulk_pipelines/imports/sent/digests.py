"""Digests of what is sent (RFC 9530): they are told beforehand, and compared when everything has arrived."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

from bulk_pipelines.errors import InvalidInput

ALGORITHMS = {"sha-256": "sha256", "sha-512": "sha512"}
MEMBER = re.compile(r"\s*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):\s*")


class DigestMismatch(InvalidInput):
    """The content is not what its digest says."""


def parsed(field: str, text: str) -> dict[str, str]:
    """Return the digests in a header, in hexadecimal and by their algorithms. Those that nobody uses any more are
    passed over; if no other one is left, the header says nothing."""
    found: dict[str, str] = {}
    for part in text.split(","):
        member = MEMBER.fullmatch(part)
        if member is None:
            raise InvalidInput(field, "is not like sha-256=:…:, with the digest in base64")
        name, encoded = member.groups()
        if name not in ALGORITHMS:
            continue
        try:
            value = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise InvalidInput(field, f"the digest {name} is not base64") from None
        if len(value) != hashlib.new(ALGORITHMS[name]).digest_size:
            raise InvalidInput(field, f"the digest {name} has {len(value)} bytes")
        found[name] = value.hex()
    return found


def verified(pieces: Iterable[bytes], expected: Mapping[str, str], field: str) -> Iterator[bytes]:
    """Yield the same pieces, and raise `DigestMismatch` behind the last one if they are not what was said."""
    hashes = {name: hashlib.new(ALGORITHMS[name]) for name in expected}
    for piece in pieces:
        for each in hashes.values():
            each.update(piece)
        yield piece
    for name, each in hashes.items():
        if each.hexdigest() != expected[name]:
            raise DigestMismatch(
                field, f"the content has another {name}: it was changed on its way, or is another file"
            )
