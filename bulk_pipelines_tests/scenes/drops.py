"""Sources to drop files at, on real servers, and files of users, articles and comments that refer to each other."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines_tests.servers.processes import LoginServer, Place, S3Server

RESOURCES = ("users", "articles", "comments")


@dataclass(frozen=True)
class Box:
    """A source of the drops file, and a way to put files there."""

    name: str
    url: str
    access: Access

    def storage(self) -> Storage:
        return locations.folder(self.url, self.access, "where")

    def drop(self, name: str, content: bytes) -> None:
        with self.storage() as storage, storage.publish(name) as sink:
            sink.write(content)

    def names(self) -> list[str]:
        with self.storage() as storage:
            return sorted(entry.key for entry in storage.entries())


def folder_box(folder: Path, name: str = "folder") -> Box:
    folder.mkdir(parents=True, exist_ok=True)
    return Box(name, str(folder), Access())


def box_of(name: str, place: Place) -> Box:
    return Box(name, place.url, place.access)


def write_drops_file(path: Path, boxes: Sequence[Box], mode: str = "upsert", **options: str | float) -> Path:
    """Write a drops file with a source for each box. Each source takes all three resources, which it knows by the names
    of the files; `options` are those of every source."""
    lines = []
    for box in boxes:
        lines += ["[[source]]", f"name = {json.dumps(box.name)}", f"where = {json.dumps(box.url)}"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in options.items()]
        for resource in RESOURCES:
            lines += ["[[source.files]]", f'glob = "{resource}*"', f'resource = "{resource}"', f'mode = "{mode}"']
    path.write_text("\n".join(lines))
    return path


def settings_of(s3: S3Server, login: LoginServer, sftp: LoginServer | None = None) -> dict[str, str]:
    """Return the environment variables that an installation needs to reach these servers."""
    assert login.access.login is not None
    found = {
        "BULK_S3_ENDPOINT": s3.endpoint,
        "BULK_S3_ACCESS_KEY_ID": s3.access.s3.access_key_id,
        "BULK_S3_SECRET_ACCESS_KEY": s3.access.s3.secret_access_key,
        "BULK_LOGIN_USER": login.access.login.user,
        "BULK_LOGIN_PASSWORD": login.access.login.password,
    }
    if sftp is not None:
        found["BULK_SFTP_KNOWN_HOSTS"] = sftp.access.login.known_hosts
    return found


def identity(kind: str, label: str, number: int) -> str:
    digits = hashlib.md5(f"{kind} {label} {number}".encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def users(label: str, count: int, bad: int = 0) -> bytes:
    """Return a CSV of users, the last `bad` of which have no proper address."""
    lines = ["id,email,name,role,active"]
    for number in range(count):
        at = "@" if number < count - bad else " at "
        lines.append(
            f"{identity('user', label, number)},reader{number}{at}{label}.example.org,Reader {number},reader,true"
        )
    return ("\n".join(lines) + "\n").encode()


def articles(label: str, count: int, authors: int, bad: int = 0) -> bytes:
    """Return NDJSON of articles, the last `bad` of which are by nobody."""
    lines = []
    for number in range(count):
        author = number % authors if number < count - bad else authors
        article = {
            "id": identity("article", label, number),
            "slug": f"{label}-article-{number}",
            "title": f"Article {number}",
            "body": "It was dropped.",
            "author_id": identity("user", label, author),
            "tags": ["dropped", label],
            "status": "draft",
        }
        lines.append(json.dumps(article))
    return ("\n".join(lines) + "\n").encode()


def comments(label: str, count: int, on: int, by: int, bad: int = 0) -> bytes:
    """Return a JSON array of comments, the last `bad` of which are about no article."""
    found = [
        {
            "id": identity("comment", label, number),
            "article_id": identity("article", label, number % on if number < count - bad else on),
            "user_id": identity("user", label, number % by),
            "body": f"Comment {number}",
        }
        for number in range(count)
    ]
    return json.dumps(found).encode()
