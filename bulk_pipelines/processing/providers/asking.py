"""Providers are asked. Kept answers come first; then one process asks a question for all that have it, within the limit
that all share."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.measures import catalogue, recording
from bulk_pipelines.engine.rate_limit import Limit, Limiter, MustWait, Stopped, Use
from bulk_pipelines.errors import Failure, InvalidInput, PutOff, Throttled, Unavailable
from bulk_pipelines.processing.providers import answers
from bulk_pipelines.processing.providers.answers import Answer, Serving
from bulk_pipelines.processing.providers.client import Client, Reply, Request
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.processing.providers.requests_made import NO_ANSWER, PUT_OFF
from bulk_pipelines.telemetry import spans

LOOK_AGAIN = 0.05
ANY = Serving()

Call = Callable[[Request], Any]
"""Makes one request within the limit, and returns the answer's JSON, or None for nothing."""
Fetch = Callable[[Sequence[str], Call], Mapping[str, Any]]
"""Asks some questions by one request, and returns the answer to each; None means that there is nothing."""


class Clients:
    """The clients of this process, by their providers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[Provider, Client] = {}

    def of(self, provider: Provider) -> Client:
        with self.lock:
            if provider not in self.open:
                self.open[provider] = Client(provider, settings.current())
            return self.open[provider]


CLIENTS = Clients()


@dataclass(frozen=True)
class Asked:
    """One request that was made, for people to look at."""

    provider: str
    request: Request
    reply: Any
    seconds: float


Count = Callable[[str, str, float, float], None]
"""Counts a request: the provider, the status, how many seconds it waited, and for how many seconds nobody may ask
because of its answer."""


def uncounted(_: str, __: str, ___: float, ____: float) -> None:
    """Count nothing: the requests of a trial belong to no job."""


class Desk:
    """The place where recipes ask providers. `tried` is called with every request that was made, and `count` counts
    them."""

    def __init__(
        self,
        pool: Engine,
        providers: Mapping[str, Provider],
        limiter: Callable[[Limit], Limiter],
        *,
        stored: bool = True,
        stopping: Callable[[], bool] = lambda: False,
        tried: Callable[[Asked], None] = lambda _: None,
        count: Count = uncounted,
    ) -> None:
        self.pool = pool
        self.providers = providers
        self.limiter = limiter
        self.stored = stored
        self.stopping = stopping
        self.tried = tried
        self.count = count

    def provider(self, name: str) -> Provider:
        try:
            return self.providers[name]
        except KeyError:
            known = ", ".join(sorted(self.providers)) or "none"
            raise InvalidInput("provider", f"{name!r} is not declared here; known: {known}") from None

    def call(self, provider: Provider, request: Request) -> Any:
        """Make one request, when its turn has come."""
        use: Use | None = None
        wanted = begun = time.monotonic()
        outcome = "failed"
        try:
            with self.limiter(provider.limit).use(provider.patience) as use:
                begun = time.monotonic()
                reply = self.sent(provider, request, use)
            if isinstance(reply, Failure):
                raise reply
            outcome = "nothing" if reply.value is None else "answered"
        except MustWait as error:
            outcome = "put_off"
            raise PutOff(str(error), error.seconds) from None
        except Throttled:
            outcome = "throttled"
            raise
        except Stopped:
            outcome = ""
            raise
        finally:
            self.measure(provider, outcome, None if use is None else time.monotonic() - begun)
            if outcome:
                waited = (time.monotonic() if use is None else begun) - wanted
                status = PUT_OFF if use is None else use.status or NO_ANSWER
                self.count(provider.name, status, waited, 0.0 if use is None else use.blocked_seconds)
        self.tried(Asked(provider.name, request, reply.value, time.monotonic() - begun))
        return reply.value

    def sent(self, provider: Provider, request: Request, use: Use) -> Reply | Failure:
        """Return the reply, or the failure. The client has already told the limit of failures that are the provider's
        fault, so the failure is returned: the limit would count an exception as one more."""
        try:
            with spans.span(f"ask {provider.name}", "client", method=request.method):
                return CLIENTS.of(provider).call(request, use)
        except Failure as error:
            return error

    def measure(self, provider: Provider, outcome: str, seconds: float | None) -> None:
        if outcome:
            note = recording.of(self.pool)
            note.count(catalogue.PROVIDER_REQUESTS, provider.name, outcome)
            note.count(catalogue.PROVIDER_REQUESTS, provider.name, "throttled", by=0)
            if seconds is not None:
                note.observe(catalogue.PROVIDER_SECONDS, seconds, provider.name)

    def ask(
        self,
        name: str,
        questions: Sequence[str],
        fetch: Fetch,
        *,
        place: str = "",
        batch: int = 1,
        serving: Serving = ANY,
    ) -> dict[str, Answer]:
        """Return the answers to these questions, asking what is not kept, up to `batch` questions by one request.

        A question is any text that stands for the request and for what is kept of its answer; `place` says where at the
        provider it is asked, if it does not. What others are asking at the moment is waited for.
        """
        provider = self.provider(name)
        keys = {answers.key_of(provider, place, each): each for each in questions}
        found: dict[bytes, Answer] = {}
        deadline = time.monotonic() + provider.patience + provider.answer_seconds
        while left := [key for key in keys if key not in found]:
            mine = left[:batch]
            if self.stored:
                with transaction(self.pool) as connection:
                    found |= answers.kept(connection, provider, left, serving)
                    missing = [key for key in left if key not in found][:batch]
                    mine = answers.begin(connection, provider, missing, serving, lease(provider)) if missing else []
            if mine:
                found |= self.fetched(provider, {key: keys[key] for key in mine}, fetch)
            elif len(found) < len(keys):
                self.wait_for_others(provider, deadline)
        return {question: found[key] for key, question in keys.items()}

    def wait_for_others(self, provider: Provider, deadline: float) -> None:
        if self.stopping():
            raise Stopped
        if time.monotonic() > deadline:
            raise PutOff(f"somebody else has been asking {provider.name} the same for too long")
        time.sleep(LOOK_AGAIN)

    def fetched(self, provider: Provider, wanted: Mapping[bytes, str], fetch: Fetch) -> dict[bytes, Answer]:
        try:
            said = fetch(list(wanted.values()), lambda request: self.call(provider, request))
            if self.stored:
                with transaction(self.pool) as connection:
                    answers.keep(connection, provider, {key: said.get(question) for key, question in wanted.items()})
        except BaseException:
            if self.stored:
                with suppress(Unavailable), transaction(self.pool) as connection:
                    answers.give_up(connection, provider, list(wanted))
            raise
        return {key: Answer(said.get(question), None) for key, question in wanted.items()}


def lease(provider: Provider) -> float:
    """Return for how many seconds a question stays reserved for the process that asks it."""
    return provider.patience + provider.limit.lease_seconds
