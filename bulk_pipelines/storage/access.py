"""What it takes to reach the storages: endpoints and credentials, as plain values."""

from dataclasses import dataclass, field

from bulk_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class S3Access:
    endpoint: str = ""
    """Empty: Amazon's, of the region."""
    region: str = "us-east-1"
    access_key_id: str = ""
    """Empty: what boto3 finds (environment, profile, role of the machine); finding nothing, requests go unsigned."""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    retries: int = 3
    """Quick ones, within seconds, by obstore; what outlasts them is `Transient` and the caller's to retry."""


@dataclass(frozen=True, slots=True)
class LoginAccess:
    """For FTP, FTPS and SFTP, where the address names no user or password."""

    user: str = ""
    password: str = field(default="", repr=False)
    key_file: str = ""
    """SFTP: the private key."""
    known_hosts: str = ""
    """SFTP: the keys of servers that are trusted; empty: those of the user, `~/.ssh/known_hosts`."""


@dataclass(frozen=True, slots=True)
class HttpAccess:
    allow_private: bool = False
    """Whether a source may lie in a private network or on this machine."""
    seconds: float = 3600.0
    """The longest that one download may take in all."""
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Access:
    s3: S3Access = field(default_factory=S3Access)
    login: LoginAccess = field(default_factory=LoginAccess)
    http: HttpAccess = field(default_factory=HttpAccess)
    ca_file: str = ""
    """A PEM file of authorities that are trusted besides the system's."""


def access_of(settings: Settings) -> Access:
    return Access(
        s3=S3Access(
            endpoint=settings.s3_endpoint,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=settings.s3_secret_access_key,
            session_token=settings.s3_session_token,
        ),
        login=LoginAccess(
            user=settings.login_user,
            password=settings.login_password,
            key_file=settings.sftp_key_file,
            known_hosts=settings.sftp_known_hosts,
        ),
        http=HttpAccess(allow_private=settings.allow_private_http, seconds=settings.http_seconds),
        ca_file=settings.ca_file,
    )
