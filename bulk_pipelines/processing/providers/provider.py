"""The declaration of a provider: where it is, how it is called, and what it allows."""

import re
from dataclasses import dataclass
from typing import Self

import httpx

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.rate_limit import Limit, Window
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.recipes.checking import Fields, checked_name

WIKIMEDIA = re.compile(
    r"(.+\.)?(wikidata|wikimedia|wikipedia|wiktionary|wikisource|wikiquote|wikivoyage|mediawiki|wikifunctions)\.org"
)
"""The hosts that refuse whoever does not say how its operator is reached."""
REACHABLE = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|https?://\S+")
"""A mail address or a page, somewhere in the contact."""
LEASE_MARGIN = 30.0
"""Seconds beyond the longest request after which a use of the limit counts as ended, though nobody said so."""
DAY = 86_400.0


@dataclass(frozen=True)
class Provider:
    """A web service that answers with JSON."""

    name: str
    address: str
    user_agent: str = "bulk-pipelines"
    contact: str = ""
    """A mail address or page of whoever runs this installation. Some providers refuse requests without it."""
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """Headers whose values stand in the environment: the header, and the value with `{VARIABLE}` in it."""
    windows: tuple[Window, ...] = ()
    at_once: int = 2
    delay: float = 0.0
    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    answer_seconds: float = 60.0
    """The longest time that a request may take in all."""
    answer_bytes: int = 4 * 1024 * 1024
    throttled: tuple[int, ...] = (429,)
    """The statuses that mean: ask less. With a Retry-After, 503 means that as well."""
    maxlag: int = 0
    """Sent with each request to a MediaWiki; how many seconds its replicas may lag behind. 0: not sent."""
    patience: float = 30.0
    """How many seconds an item waits for its turn; after that it is put off, and others are worked."""
    break_after: int = 10
    break_seconds: float = 60.0
    keep_seconds: float = 30 * DAY
    keep_nothing_seconds: float = DAY
    private: bool = False
    """Whether the provider may lie in a private network or on this machine."""
    shares: str = ""
    """Providers with the same word here share one limit, because whoever runs them counts their requests together."""

    @property
    def limit(self) -> Limit:
        return Limit(
            f"providers:{self.shares}" if self.shares else f"provider:{self.name}",
            self.windows,
            self.at_once,
            self.delay,
            self.answer_seconds + self.connect_seconds + LEASE_MARGIN,
            self.break_after,
            self.break_seconds,
        )

    @property
    def agent(self) -> str:
        return f"{self.user_agent} ({self.contact})" if self.contact else self.user_agent

    @property
    def of_wikimedia(self) -> bool:
        return WIKIMEDIA.fullmatch(httpx.URL(self.address).host) is not None

    def check_contact(self) -> None:
        """Raise `InvalidInput` if the contact does not say how the operator of this installation is reached."""
        if not REACHABLE.search(self.contact):
            raise InvalidInput(
                f"provider.{self.name}.contact",
                "must be a mail address or a page of whoever runs this installation, or set BULK_CONTACT: "
                "Wikimedia refuses requests without one",
            )

    @classmethod
    def parse(cls, name: str, given: object) -> Self:
        place = f"provider.{name}"
        checked_name(place, name)
        with Fields(place, given) as fields:
            provider = cls(
                name=name,
                address=checked_address(fields.at("address"), fields.text("address")),
                user_agent=checked_header(fields.at("user_agent"), fields.text("user_agent", "bulk-pipelines")),
                contact=checked_header(fields.at("contact"), fields.text("contact", "")),
                headers=pairs(fields, "headers"),
                secrets=pairs(fields, "secret_headers"),
                windows=windows(fields),
                at_once=fields.whole("at_once", 2, least=1, most=256),
                delay=fields.number("delay", 0.0, most=3_600),
                connect_seconds=fields.number("connect_seconds", 10.0, least=0.01, most=300),
                read_seconds=fields.number("read_seconds", 30.0, least=0.01, most=3_600),
                answer_seconds=fields.number("answer_seconds", 60.0, least=0.01, most=3_600),
                answer_bytes=fields.whole("answer_bytes", 4 * 1024 * 1024, least=1, most=256 * 1024 * 1024),
                throttled=tuple(status(fields.at("throttled"), each) for each in fields.list_of("throttled")) or (429,),
                maxlag=fields.whole("maxlag", 0, most=3_600),
                patience=fields.number("patience", 30.0, most=600),
                break_after=fields.whole("break_after", 10, most=10_000),
                break_seconds=fields.number("break_seconds", 60.0, least=0.01, most=86_400),
                keep_seconds=fields.number("keep_days", 30.0, most=36_500) * DAY,
                keep_nothing_seconds=fields.number("keep_nothing_days", 1.0, most=36_500) * DAY,
                private=fields.flag("private", False),
                shares=fields.text("shares", ""),
            )
        provider.limit.check()
        return provider


def checked_address(place: str, text: str) -> str:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        raise InvalidInput(place, "is no address of a web server") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise InvalidInput(place, f"{url.scheme}://{url.host} is no address of a web server: https://host/path/")
    if url.userinfo:
        raise InvalidInput(place, "holds a password: give it as secret_headers, whose values stand in the environment")
    if url.query or url.fragment:
        raise InvalidInput(place, "holds a query or a fragment: these belong to a request")
    return text if text.endswith("/") else text + "/"


def checked_header(place: str, value: str) -> str:
    if not value.isprintable() or not value.isascii():
        raise InvalidInput(place, "is no value of a header: printable ASCII only")
    return value


def pairs(fields: Fields, name: str) -> tuple[tuple[str, str], ...]:
    found = fields.mapping(name)
    for header, value in found.items():
        place = f"{fields.at(name)}.{header}"
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", header) or header.lower() in {"host", "content-length"}:
            raise InvalidInput(place, "is no header that can be given")
        checked_header(place, value)
    return tuple(sorted(found.items()))


def windows(fields: Fields) -> tuple[Window, ...]:
    found = []
    for name, seconds in (("per_second", 1.0), ("per_minute", 60.0), ("per_day", DAY)):
        most = fields.number(name, 0.0, most=10_000)
        if 0 < most < 1:
            found.append(Window(1, seconds / most))
        elif most:
            if most != int(most):
                raise InvalidInput(fields.at(name), f"{most:g} is neither a whole number nor below 1")
            found.append(Window(int(most), seconds))
    return tuple(found)


def status(place: str, value: object) -> int:
    if isinstance(value, bool):
        raise InvalidInput(place, f"{value!r} is no status of HTTP")
    return payload.size(place, value, 599)
