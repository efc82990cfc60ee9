"""Where a person can open a file that was distributed."""

import re
from urllib.parse import quote

from bulk_pipelines.settings import Settings


def markdown(path: str, settings: Settings) -> str:
    """Return the path as a link if a browser can follow one, else as text. Only files in S3 have a link."""
    url = web_address(path, settings)
    return f"[{escaped(path)}](<{url}>)" if url else escaped(path)


def web_address(path: str, settings: Settings) -> str | None:
    """Return the web address of an S3 object, on the configured server or in Amazon's console; None for other files."""
    if not path.startswith("s3://"):
        return None
    bucket, _, key = path.removeprefix("s3://").partition("/")
    if settings.s3_endpoint:
        return f"{settings.s3_endpoint.rstrip('/')}/{bucket}/{quote(key)}"
    region = settings.s3_region
    return f"https://{region}.console.aws.amazon.com/s3/object/{bucket}?region={region}&prefix={quote(key, safe='')}"


def escaped(text: str) -> str:
    """Escape a text for Markdown, because an index may be called `a|b` or `*x*`."""
    return re.sub(r"([\\`*_\[\]<>|~#^])", r"\\\1", text)
