"""Names of all scripts, written in one small alphabet: a to z, 0 to 9 and single spaces."""

import re
import unicodedata
from functools import lru_cache

from anyascii import anyascii

# fmt: off
LEGAL_FORMS = frozenset((
    "ab", "ag", "aktiengesellschaft", "aps", "as", "asa", "asbl", "bhd", "bv", "bvba", "co", "company", "corp",
    "corporation", "cv", "doo", "eg", "ehf", "ev", "gmbh", "inc", "incorporated", "kft", "kg", "kgaa", "kk",
    "limited", "limitada", "llc", "llp", "lp", "ltd", "ltda", "mbh", "nv", "oao", "ohg", "ooo", "oy", "oyj",
    "pao", "pjsc", "plc", "pte", "pty", "pvt", "sa", "sarl", "sas", "sasu", "se", "sia", "sl", "slu", "spa",
    "sro", "srl", "ug", "uab", "vof", "zao", "zrt",
))
"""Words that name the legal form of a company, folded. They say little about which company it is."""
# fmt: on

APOSTROPHES = "'`\u00b4\u2018\u2019\u02bb\u02bc"
TRADE_MARKS = str.maketrans("", "", "™℠®©")
SECOND_LEVEL = frozenset(
    ("ac", "co", "com", "edu", "go", "gob", "gouv", "gov", "govt", "ne", "net", "nic", "or", "org")
)
HOST = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?(?://)?(?:[^/?#@]*@)?(?:www\d?\.)?([^/:?#\s]+)")


class _Letters(dict[int, str]):
    """What each character becomes; a character is worked out when it is first met."""

    def __missing__(self, codepoint: int) -> str:
        self[codepoint] = folded = _letter(chr(codepoint))
        return folded


def _letter(character: str) -> str:
    if character in APOSTROPHES:
        return ""
    if not character.isalnum() and unicodedata.category(character)[0] != "M":  # a mark belongs to its letter
        return " "
    return "".join(each if each.isalnum() else "" for each in anyascii(character).lower())


_LETTERS = _Letters()


def fold(text: str) -> str:
    """Return the text in the small alphabet. A text of signs alone becomes their numbers, so that it is not empty."""
    folded = " ".join(unicodedata.normalize("NFKC", text.translate(TRADE_MARKS)).translate(_LETTERS).split())
    return folded or " ".join(f"u{ord(each):x}" for each in text[:20] if not each.isspace())


def compact(folded: str) -> str:
    """Return the folded name without spaces and without the legal forms at its end."""
    words = folded.split()
    while len(words) > 1 and words[-1] in LEGAL_FORMS:
        words.pop()
    return "".join(words)


def acronym(folded: str) -> str:
    """Return the first letters of three or more words, or nothing."""
    words = folded.split()
    return "".join(word[0] for word in words) if len(words) > 2 else ""


def host(website: str) -> str:
    """Return the host of a web address in small letters, without `www.`."""
    found = HOST.match(website.strip().lower())
    return found[1].strip(".") if found else ""


@lru_cache(maxsize=65536)
def site(website: str) -> tuple[str, str]:
    """Return the name that a web address is registered under, and its country or "": `shop.example.co.uk` is
    `example` of `gb`."""
    labels = host(website).split(".")
    if len(labels) < 2:
        return "", ""
    top, labels = labels[-1], labels[:-1]
    if len(labels) > 1 and (labels[-1] in SECOND_LEVEL or len(labels[-1]) < 3):
        labels = labels[:-1]
    country = {"uk": "gb"}.get(top, top) if len(top) == 2 else ""
    return fold(labels[-1].replace("-", "")), country
