"""What every endpoint needs: the settings, the pool, and whether strangers are let in. It is made once for a process
and never changes."""

import ipaddress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Engine

from bulk_pipelines.api.stops import Stops
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import Settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Door:
    """The surroundings of the endpoints."""

    settings: Settings
    pool: Engine
    loopback: bool = False
    """Whether only this machine reaches the API. Then, as long as no key was made, whoever asks is an administrator."""
    stops: Stops = field(default_factory=Stops)

    @cached_property
    def proxies(self) -> list[Network]:
        return proxies(self.settings)

    @cached_property
    def admins(self) -> frozenset[str]:
        return frozenset(listed(self.settings.api_admins))

    def trusts(self, address: str) -> bool:
        """Whether this address is that of a trusted proxy."""
        if not self.proxies:
            return False
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self.proxies)


def proxies(chosen: Settings) -> list[Network]:
    try:
        return [ipaddress.ip_network(each, strict=False) for each in listed(chosen.api_proxies)]
    except ValueError as error:
        raise InvalidInput("BULK_API_PROXIES", f"{error}") from None


def listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


async def door_of(request: Request) -> Door:
    door = request.app.state.door
    assert isinstance(door, Door)
    return door


TheDoor = Annotated[Door, Depends(door_of)]
