"""Addresses of files: parsing them, and making them fit to be shown in messages."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage.paths import CONTROL

SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
KNOWN = "a path, file://, s3://, ftp://, ftps://, ftpes://, sftp://, http:// or https://"


@dataclass(frozen=True, slots=True)
class Address:
    scheme: str
    host: str
    """The name of the server, or of the bucket for S3; empty for a local path."""
    path: str
    """The decoded path. A local path is absolute; all others lack the slash that follows the host."""
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def server(self) -> str:
        """The address up to its path, without the password; empty for a local path."""
        if self.scheme == "file":
            return ""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{user}{host}{f':{self.port}' if self.port else ''}"


def parse(url: str, field_name: str = "url") -> Address:
    """Parse an address. A text without `scheme://` is a local path, relative to the working directory."""
    if not url:
        raise InvalidInput(field_name, "is empty")
    plain(url, field_name)
    found = SCHEME.fullmatch(url)
    if not found:
        return Address("file", "", str(Path(url).absolute()))
    scheme, rest = found[1].lower(), found[2]
    match scheme:
        case "file":
            return parse_file(rest, field_name)
        case "s3":
            bucket, _, path = rest.partition("/")
            if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket):
                raise InvalidInput(field_name, f"{redacted(url)} names no bucket: s3://bucket/path")
            return Address("s3", bucket, path)
        case "ftp" | "ftps" | "ftpes" | "sftp" | "http" | "https":
            return parse_server(url, scheme, field_name)
    raise InvalidInput(field_name, f"{scheme}:// is not an address we know: use {KNOWN}")


def parse_file(rest: str, field_name: str) -> Address:
    host, slash, path = rest.partition("/")
    if host not in {"", "localhost"} or not slash:
        raise InvalidInput(field_name, "a file:// address has three slashes: file:///folder/name")
    return Address("file", "", plain(unquote("/" + path), field_name))


def parse_server(url: str, scheme: str, field_name: str) -> Address:
    try:
        web = scheme.startswith("http")
        parts = urlsplit(url, allow_fragments=web)  # on all but web servers, a # is part of a name
        host, port = parts.hostname, parts.port
        user, password = (unquote(each, errors="strict") if each else None for each in (parts.username, parts.password))
        path = parts.path.removeprefix("/") + (f"?{parts.query}" if parts.query else "")
        if not web:  # a web server decides itself what its names mean, so they are passed on as they are
            path = plain(unquote(path, errors="strict"), field_name)
    except ValueError:  # the error's text would show the password of a badly quoted address
        raise InvalidInput(field_name, f"{redacted(url)} is not a valid address") from None
    if not host:
        raise InvalidInput(field_name, f"{redacted(url)} names no server")
    if "%" in host and ":" not in host:  # part of an unquoted password, but for the zone of an IPv6 address
        raise InvalidInput(field_name, f"{redacted(url)} is not a valid address")
    return Address(scheme, host, path, port, user, password)


def plain(text: str, field_name: str) -> str:
    """Return the text if it has no control characters in it, which a server could take for the end of a command."""
    if CONTROL.search(text):
        raise InvalidInput(field_name, "has a control character in it")
    return text


def redacted(url: str) -> str:
    """Return an address as it may be shown, without password, query and fragment."""
    found = SCHEME.fullmatch(url)
    if not found or found[1].lower() in {"file", "s3"}:
        return url
    scheme, rest = found[1], found[2]
    authority = re.split(r"[/?#]", rest)[0]
    behind = rest[len(authority) :]
    user, at, host = authority.rpartition("@")
    if ":" in re.sub(r"\[[^\]]*\]", "", authority) and "@" in behind:
        return f"{scheme}://…"  # the password may be unquoted and go on behind what looks like the host
    if not re.fullmatch(r"(\[[0-9a-fA-F:.%]*\]|[^:\[\]]*)(:\d*)?", host):
        return f"{scheme}://…"
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{re.split(r'[?#]', behind)[0]}"
