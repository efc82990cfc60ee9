"""The body of a request to try items again."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import ErrorClass, InvalidInput
from bulk_pipelines.processing.control import Chosen

LARGEST_ID = (1 << 63) - 1


class Reprocess(BaseModel):
    """Which items are tried again, and how. All conditions must be true of an item."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"example": {"scope": "job", "statuses": ["ERROR"]}}
    )

    scope: Annotated[str, Field(pattern="^(job|items)$", description="job: all of the job; items: those named.")] = (
        "job"
    )
    item_ids: Annotated[
        list[str | int] | None,
        Field(alias="itemIds", description="With the scope items: the `id` of each.", min_length=1, max_length=10_000),
    ] = None
    statuses: Annotated[
        list[str] | None, Field(description="ERROR and NOT_FOUND, or one of them.", examples=[["ERROR", "NOT_FOUND"]])
    ] = None
    where: Annotated[
        dict[str, str] | None,
        Field(description="Columns of the source, with the values that they have.", examples=[{"brand": "Acme"}]),
    ] = None
    error: Annotated[str | None, Field(description="A part of the error's text.")] = None
    error_class: Annotated[Annotated[ErrorClass, Strict(False)] | None, Field(alias="errorClass")] = None
    variants: Annotated[
        list[str], Field(description="The variants to try, in place of the recipe's order.", max_length=100)
    ] = []
    reset_attempts: Annotated[
        bool,
        Field(
            alias="resetAttempts",
            description="false: only items that have attempts left are tried again, and they get no new ones.",
        ),
    ] = True
    dry_run: Annotated[bool, Field(alias="dryRun", description="Only count them.")] = False

    def chosen(self) -> Chosen:
        if (self.scope == "items") != (self.item_ids is not None):
            raise InvalidInput("itemIds", "names the items of the scope items, and of no other")
        payload.encode("where", self.where or {})
        found = Chosen.parse(self.statuses or (), error_like=self.error and payload.text("error", self.error))
        return Chosen(
            found.statuses,
            where=self.where or {},
            error_like=found.error_like,
            error_class=self.error_class,
            item_ids=None if self.item_ids is None else tuple(item_id(each) for each in self.item_ids),
        )


def item_id(given: str | int) -> int:
    text = str(given)
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > LARGEST_ID:
        raise InvalidInput("itemIds", f"{text[:100]!r} is not the id of an item")
    return int(text)
