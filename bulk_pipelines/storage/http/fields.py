"""Parsing some fields of an HTTP answer."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx


def retry_after(fields: httpx.Headers) -> float | None:
    """Return the seconds that the server asks to wait; None if it does not say. A date in Retry-After is compared with
    the server's own clock."""
    text = fields.get("Retry-After", "")
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    then, now = moment(text), moment(fields.get("Date", ""))
    return max((then - now).total_seconds(), 0.0) if then and now else None


def moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
