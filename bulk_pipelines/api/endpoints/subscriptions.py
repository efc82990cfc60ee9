"""Notices: who is told of what, by signed requests."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, Strict

from bulk_pipelines.api.door import TheDoor
from bulk_pipelines.api.owners.callers import Caller, ForOwner, Reader, Writer, acting_for, looking_at
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Forbidden
from bulk_pipelines.notices import sending, subscriptions
from bulk_pipelines.notices.request import HOUR, EventType, Subscription

router = APIRouter(prefix="/v1/subscriptions", tags=["notices"])

SubscriptionId = Annotated[
    str, Path(description="The id of the subscription.", max_length=100, examples=["sub_0a1b2c3d4e5f"])
]


class Shown(BaseModel):
    """Who is told of what. The secret that signs the notices, and the whole address, are not shown."""

    subscription_id: Annotated[str, Field(examples=["sub_0a1b2c3d4e5f"])]
    owner: Annotated[str, Field(examples=["ada"])]
    address: Annotated[str, Field(description="The receiver; the rest of its address may be a secret.")]
    types: list[EventType]
    all_owners: bool
    error_rate: Annotated[float, Field(description="`job.error_rate`: the share above which it is told.")]
    silent_hours: Annotated[float, Field(description="`source.silent`: after how long without a dropped file.")]
    private: Annotated[bool, Field(description="The receiver may lie in a private network.")]


class Subscriptions(BaseModel):
    """All subscriptions that one may see, in the order in which they were made."""

    subscriptions: list[Shown]


class Made(Shown):
    """A subscription that was made just now."""

    secret: Annotated[str, Field(description="It signs the notices; it is shown once.", examples=["whsec_…"])]


class Wanted(BaseModel):
    """Who is to be told of what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    address: Annotated[
        str, Field(description="https://… of the receiver.", examples=["https://example.org/hook"], max_length=2_000)
    ]
    types: Annotated[
        list[Annotated[EventType, Strict(False)]], Field(min_length=1, max_length=20, examples=[["job.failed"]])
    ]
    all_owners: Annotated[bool, Field(description="Administrators only: the jobs of all owners, and sources.")] = False
    error_rate: Annotated[float, Field(ge=0, lt=1)] = 0.1
    silent_hours: Annotated[float, Field(ge=1 / 60, le=24 * 365)] = 24.0
    private: Annotated[bool, Field(description="Administrators only: the receiver may lie in a private network.")] = (
        False
    )


class Tried(BaseModel):
    """What came of a notice that was sent for a trial."""

    delivered: bool
    status: Annotated[int | None, Field(description="What the receiver answered, if that was a success.")]
    message: str


def shown(each: Subscription) -> dict[str, object]:
    return {
        "subscription_id": each.subscription_id,
        "owner": each.owner,
        "address": each.shown,
        "types": each.types,
        "all_owners": each.all_owners,
        "error_rate": each.error_rate,
        "silent_hours": each.silent_seconds / HOUR,
        "private": each.private,
    }


@router.get("", summary="Who is told of what")
def list_subscriptions(door: TheDoor, caller: Reader, owner: ForOwner = None) -> Subscriptions:
    """Lists one's own subscriptions; administrators see all."""
    with transaction(door.pool) as connection:
        found = subscriptions.every(connection, owner=looking_at(caller, owner))
    return Subscriptions(subscriptions=[Shown.model_validate(shown(each)) for each in found])


@router.post("", summary="Be told of events", status_code=201)
def subscribe(asked: Wanted, door: TheDoor, caller: Writer, response: Response, owner: ForOwner = None) -> Made:
    """Has notices sent to an address. They are signed as Standard Webhooks describes; the secret is shown once, in this
    answer. The receiver must lie in the public internet, unless an administrator allows it not to (`private`)."""
    if (asked.all_owners or asked.private) and not caller.actor.admin:
        raise Forbidden("all_owners and private are for administrators")
    with transaction(door.pool) as connection:
        made = subscriptions.add(
            connection,
            caller.actor,
            acting_for(caller, owner),
            asked.address,
            asked.types,
            all_owners=asked.all_owners,
            error_rate=asked.error_rate,
            silent_seconds=asked.silent_hours * HOUR,
            private=asked.private,
        )
    response.headers["Location"] = f"/v1/subscriptions/{made.subscription_id}"
    return Made.model_validate({**shown(made), "secret": made.secret})


@router.get("/{subscription_id}", summary="One subscription")
def show_subscription(subscription_id: SubscriptionId, door: TheDoor, caller: Reader) -> Shown:
    """Shows who is told of what."""
    return Shown.model_validate(shown(found(door, subscription_id, caller)))


@router.delete("/{subscription_id}", summary="End a subscription", status_code=204)
def unsubscribe(subscription_id: SubscriptionId, door: TheDoor, caller: Writer) -> Response:
    """Removes a subscription. Notices that wait to be sent to it are not sent any more."""
    with transaction(door.pool) as connection:
        subscriptions.remove(connection, caller.actor, subscription_id, caller.actor.sees)
    return Response(status_code=204)


@router.post("/{subscription_id}/test", summary="Send a notice for a trial")
def try_subscription(subscription_id: SubscriptionId, door: TheDoor, caller: Writer) -> Tried:
    """Sends a notice of the type `test` now, and says what the receiver answered."""
    trial = sending.tried(found(door, subscription_id, caller), door.settings)
    return Tried(delivered=trial.delivered, status=trial.status, message=trial.message)


def found(door: TheDoor, subscription_id: str, caller: Caller) -> Subscription:
    with transaction(door.pool) as connection:
        return subscriptions.find(connection, subscription_id, caller.actor.sees)
