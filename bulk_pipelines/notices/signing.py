"""How a notice is signed: its receiver can tell that it comes from here, unchanged, and at this time. The scheme is
that of Standard Webhooks (standardwebhooks.com), for which there are libraries."""

import base64
import hashlib
import hmac

from bulk_pipelines.notices.subscriptions import PREFIX


def signature(secret: str, notice_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`: HMAC-SHA256 over the id, the time and the body."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{notice_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(secret: str, notice_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, notice_id, timestamp, body),
    }
