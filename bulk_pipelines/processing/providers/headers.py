"""The headers of requests to a provider."""

import re

from bulk_pipelines import settings
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.providers.provider import Provider
from bulk_pipelines.storage.errors import Refused
from bulk_pipelines.telemetry import context

VARIABLE = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")
PACKED = {"Accept-Encoding": "gzip"}


def of_every_request(provider: Provider) -> dict[str, str]:
    """Return the headers of every request, with the secrets that stand in the environment."""
    if provider.of_wikimedia:
        try:
            provider.check_contact()
        except InvalidInput as error:
            raise Refused(str(error)) from None
    found = {"User-Agent": provider.agent, "Accept": "application/json", **PACKED, **dict(provider.headers)}
    for header, template in provider.secrets:
        found[header] = VARIABLE.sub(lambda named: secret(provider, named[1]), template)
    return found


def of_this_request() -> dict[str, str]:
    """Return the header `traceparent`, by which calls of the provider can be traced to the request that caused them."""
    trace_parent = context.outgoing()
    return {} if trace_parent is None else {"traceparent": trace_parent}


def secret(provider: Provider, variable: str) -> str:
    value = settings.secret(variable)
    if not value:
        raise Refused(f"the provider {provider.name} needs the variable {variable}, which is not set here")
    return value
