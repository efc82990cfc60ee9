"""Where a person can open a file that was distributed."""

import re
from urllib.parse import quote

from bulk_pipelines.settings import Settings


def markdown(path: str, settings: Settings) -> str:
    """The path, as a link where a browser can follow one: local files and other servers' have none."""
    url = web_address(path, settings)
    return f"[{escaped(path)}](<{url}>)" if url else escaped(path)


def web_address(path: str, settings: Settings) -> str | None:
    """Of an S3 object: on the configured server, or in Amazon's console."""
    if not path.startswith("s3://"):
        return None
    bucket, _, key = path.removeprefix("s3://").partition("/")
    if settings.s3_endpoint:
        return f"{settings.s3_endpoint.rstrip('/')}/{bucket}/{quote(key)}"
    region = settings.s3_region
    return f"https://{region}.console.aws.amazon.com/s3/object/{bucket}?region={region}&prefix={quote(key, safe='')}"


def escaped(text: str) -> str:
    """As text in Markdown: an index may be called `a|b` or `*x*`."""
    return re.sub(r"([\\`*_\[\]<>|~#^])", r"\\\1", text)
