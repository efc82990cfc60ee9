"""Reaching an S3 bucket: obstore's client, its time limits and retries, and where the credentials come from."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from obstore import sign
from obstore.store import S3Store

from bulk_pipelines.storage.access import S3Access
from bulk_pipelines.storage.tls import authorities

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential, S3CredentialProvider

FOUND_CREDENTIALS_LAST = timedelta(minutes=10)


@lru_cache(maxsize=64)
def store_of(bucket: str, access: S3Access, ca_file: str = "") -> tuple[S3Store, bool]:
    """Return the client of a bucket, and whether it signs its requests. A client keeps connections, so it is made only
    once."""
    client: ClientConfig = {
        "allow_http": access.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=access.silence),
        "timeout": timedelta(minutes=3),
    }
    if ca_file:
        client["root_certificate"] = authorities(ca_file)
    retry: RetryConfig = {
        "max_retries": access.retries,
        "retry_timeout": timedelta(seconds=20),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }
    config: S3Config = {"region": access.region}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    provider: S3CredentialProvider | None = None
    if access.access_key_id:
        config["access_key_id"] = access.access_key_id
        config["secret_access_key"] = access.secret_access_key
        if access.session_token:
            config["session_token"] = access.session_token
    else:
        provider = found_credentials(access)
        if provider is None:
            config["skip_signature"] = True
    store = S3Store(bucket, config=config, client_options=client, retry_config=retry, credential_provider=provider)
    return store, "skip_signature" not in config


@lru_cache(maxsize=64)
def address_of(bucket: str, access: S3Access) -> str:
    """Return the bucket's web address, as obstore makes it of the settings and the environment (such as
    AWS_ENDPOINT_URL)."""
    config: S3Config = {"region": access.region, "access_key_id": "any", "secret_access_key": "any"}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    store = S3Store(bucket, config=config, client_options={"allow_http": True})
    return sign(store, "GET", "key", timedelta(minutes=1)).partition("?")[0].removesuffix("/key")


@lru_cache(maxsize=64)
def credentials_of(access: S3Access) -> "Credentials | None":
    """Return the credentials of the settings, else those that boto3 finds in its usual places, else None."""
    from botocore.credentials import Credentials  # noqa: PLC0415 - slow to import, and needed only here

    if access.access_key_id:
        return Credentials(access.access_key_id, access.secret_access_key, access.session_token or None)
    import boto3  # noqa: PLC0415

    return boto3.Session().get_credentials()


def found_credentials(access: S3Access) -> "S3CredentialProvider | None":
    """Return a function that obstore calls for credentials, and again when they run out; None when there are none."""
    credentials = credentials_of(access)
    if credentials is None:
        return None

    def provide() -> "S3Credential":
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key or "",
            "secret_access_key": frozen.secret_key or "",
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + FOUND_CREDENTIALS_LAST,
        }

    return provide
