"""What a process needs to reach the storages: endpoints and credentials, as plain values."""

from dataclasses import dataclass, field

from bulk_pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class S3Access:
    endpoint: str = ""
    """The address of the S3 server. When it is empty, Amazon's endpoint of the region is used."""
    region: str = "us-east-1"
    access_key_id: str = ""
    """When it is empty, the credentials are those that boto3 finds (in the environment, a profile, or the role of the
    machine). If boto3 finds none, requests are not signed."""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    retries: int = 3
    """How often a failed request is tried again by obstore, within seconds. A failure that outlasts this is
    `Transient`, and the caller has to try again."""
    silence: float = 30.0
    """How many seconds a server may be silent before a request is given up."""


@dataclass(frozen=True, slots=True)
class LoginAccess:
    """The login for FTP, FTPS and SFTP where the address names no user or password."""

    user: str = ""
    password: str = field(default="", repr=False)
    key_file: str = ""
    """The file of the private key, for SFTP."""
    known_hosts: str = ""
    """The file with the keys of trusted servers, for SFTP. When it is empty, the user's `~/.ssh/known_hosts` is used.
    """


@dataclass(frozen=True, slots=True)
class HttpAccess:
    allow_private: bool = False
    """Whether a source may lie in a private network or on this machine."""
    seconds: float = 3600.0
    """How many seconds one whole download may take."""
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Access:
    s3: S3Access = field(default_factory=S3Access)
    login: LoginAccess = field(default_factory=LoginAccess)
    http: HttpAccess = field(default_factory=HttpAccess)
    ca_file: str = ""
    """A PEM file of certificate authorities that are trusted besides the system's."""


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
