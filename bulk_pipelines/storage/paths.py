"""The names of files: what a key may look like, patterns over keys, and the names of unfinished files.

A key is a relative path whose segments are separated by `/`. Nothing in it can lead out of its folder on any of the
storages, and it means the same file on all of them.
"""

import hashlib
import itertools
import re

from bulk_pipelines.storage.errors import UnsafePath

LONGEST_KEY = 1024  # S3's limit, in bytes of UTF-8
LONGEST_SEGMENT = 255  # that of common file systems
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
UNFINISHED = re.compile(r"\..*\.[0-9a-f]{16}\.part")
NO_PLACES = frozenset({"", ".", ".."})
WILD = re.compile(r"[*?\[]")
ANY_FOLDERS = r"(?:(?!\.)[^/]+/)*"


def check(key: str, field: str = "path") -> str:
    """Return the key if it is a valid one, else raise `UnsafePath`."""
    if problem := fault(key):
        raise UnsafePath(field, f"{key[:200]!r} {problem}")
    return key


def fault(key: str) -> str | None:  # noqa: PLR0911 - one line a rule
    """Return why this text is not a key; None if it is one."""
    if not key:
        return "is empty"
    if CONTROL.search(key):
        return "has a control character in it"
    if "\\" in key:
        return "has a backslash in it"
    segments = key.split("/")
    if not NO_PLACES.isdisjoint(segments):
        return "is not a plain relative path: it has an empty, '.' or '..' part"
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if max(sizes) > LONGEST_SEGMENT or sum(sizes) + len(sizes) - 1 > LONGEST_KEY:
        return f"is too long: at most {LONGEST_KEY} bytes, and {LONGEST_SEGMENT} in one part"
    return None


def unfinished(key: str, token: str) -> str:
    """Return the name that a file has while it is written, in the folder where it belongs. `token` is 16 random
    hexadecimal digits."""
    return beside(key, f"{token}.part")


def is_unfinished(key: str, of: str = "") -> bool:
    """Whether the key names an unfinished file. If `of` is given, it must be an unfinished file of that key."""
    if UNFINISHED.fullmatch(key.rpartition("/")[2]) is None:
        return False
    token = key.removesuffix(".part")[-16:]
    return not of or key == unfinished(of, token)


def leaving(key: str, version: str) -> str:
    """Return the name that a version of a file has while it is removed, in the folder where it was. Every try uses the
    same name."""
    return beside(key, f"{hashlib.sha256(version.encode()).hexdigest()[:16]}.leaving")


def beside(key: str, ending: str) -> str:
    """Return the name of a hidden file beside the key's, whose beginning it has as far as a name may be long."""
    folder, slash, name = key.rpartition("/")
    name = name.encode()[: LONGEST_SEGMENT - len(f"..{ending}")].decode(errors="ignore")
    return f"{folder}{slash}.{name}.{ending}"


def folder_of(key: str) -> str:
    return key.rpartition("/")[0]


def folders_of(key: str) -> list[str]:
    """Return all folders that the key lies in, the outermost first."""
    parts = key.split("/")[:-1]
    return list(itertools.accumulate(parts, "{}/{}".format))


def escape(key: str) -> str:
    """Return a pattern that matches only this key."""
    return WILD.sub(lambda found: f"[{found[0]}]", key)


class Pattern:
    """A pattern over keys. `*`, `?`, `[abc]` and `[!abc]` match within one part of the path; the part `**` stands for
    any number of parts.

    As in a shell, wildcards do not match a name that starts with a dot: many uploaders write under such names first.
    """

    def __init__(self, text: str) -> None:
        if not text or text.startswith("/"):
            raise UnsafePath("pattern", f"{text!r} is not a relative pattern")
        self.parts = text.split("/")
        *folders, name = self.parts
        try:
            # `folders` has one expression for each folder part, None for `**`; `expression` is for the whole pattern.
            self.folders = [None if part == "**" else re.compile(expression_of(part)) for part in folders]
            expressions = [ANY_FOLDERS if part == "**" else expression_of(part) + "/" for part in folders]
            self.expression = re.compile("".join(expressions) + expression_of(name))
        except re.error:
            raise UnsafePath("pattern", f"{text!r} is not a pattern") from None
        if name == "**":
            self.folders.append(None)
            self.expression = re.compile("".join(expressions) + ANY_FOLDERS + expression_of("*"))

    @property
    def folder(self) -> str:
        """The folder that holds every match. It consists of the parts before the first wildcard."""
        fixed = itertools.takewhile(lambda part: not WILD.search(part), self.parts[:-1])
        return "/".join(fixed)

    def matches(self, key: str) -> bool:
        return self.expression.fullmatch(key) is not None

    def reaches(self, folder: str) -> bool:
        """Whether a match may lie in or below this folder."""
        segments = folder.split("/") if folder else []
        for depth, segment in enumerate(segments):
            if depth == len(self.folders):
                return False
            expected = self.folders[depth]
            if expected is None:
                hidden = any(each.startswith(".") for each in segments[depth:])
                return not hidden or any(part.startswith(".") for part in self.parts[depth:])
            if not expected.fullmatch(segment):
                return False
        return True


def expression_of(part: str) -> str:
    """Return the regular expression for one part of a pattern."""
    pieces = [] if part.startswith(".") else [r"(?!\.)"]
    position = 0
    while position < len(part):
        if found := re.compile(r"\[(!?)(\]?[^\]/]*)\]").match(part, position):
            pieces.append(f"[{'^/' if found[1] else ''}{escaped_set(found[2])}]")
            position = found.end()
            continue
        char = part[position]
        pieces.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        position += 1
    return "".join(pieces)


def escaped_set(members: str) -> str:
    """Escape the members of a `[…]`, so that ranges stay ranges and everything else stands for itself."""
    return re.sub(r"[\\\[\]^&~|]", lambda found: "\\" + found[0], members)
