"""Which certificates are trusted: those of the system's authorities, and of the authorities in one more file if it is
named."""

import ssl
from pathlib import Path

from bulk_pipelines.errors import InvalidInput


def context(ca_file: str) -> ssl.SSLContext:
    made = ssl.create_default_context()
    if ca_file:
        try:
            made.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput("BULK_CA_FILE", f"{ca_file} holds no certificates to trust: {error.strerror}") from None
    return made


def authorities(ca_file: str) -> str:
    """Return the extra authorities as PEM, once they are known to be valid."""
    context(ca_file)
    return Path(ca_file).read_text()
