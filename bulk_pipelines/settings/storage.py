"""The settings of files elsewhere: where sources are landed, and how servers are reached."""

from dataclasses import dataclass

from bulk_pipelines.settings.variables import setting


@dataclass(frozen=True)
class StorageSettings:
    landing_url: str = setting(
        "BULK_LANDING_URL",
        "",
        "Where sources are landed: a folder or `s3://bucket/folder`, one that every machine with workers can reach. "
        "Empty: the folder `landed` in `BULK_HOME`.",
    )
    landing_max_bytes: int = setting(
        "BULK_LANDING_MAX_BYTES", 64 * 1024**3, "The largest source, also after decompression, in bytes.", at_least=1
    )
    landing_max_ratio: float = setting(
        "BULK_LANDING_MAX_RATIO", 200.0, "How many times its size a compressed source may unpack to.", at_least=1
    )
    s3_endpoint: str = setting(
        "BULK_S3_ENDPOINT", "", "The S3 server, `https://host:port`. Empty: Amazon's, of the region."
    )
    s3_region: str = setting("BULK_S3_REGION", "us-east-1", "The region of the S3 buckets.")
    s3_access_key_id: str = setting(
        "BULK_S3_ACCESS_KEY_ID",
        "",
        "The S3 access key. Empty: what boto3 finds (environment, profile, machine role), else unsigned requests.",
    )
    s3_secret_access_key: str = setting(
        "BULK_S3_SECRET_ACCESS_KEY", "", "The secret of the S3 access key.", secret=True
    )
    s3_session_token: str = setting(
        "BULK_S3_SESSION_TOKEN", "", "The session token of temporary S3 credentials.", secret=True
    )
    login_user: str = setting(
        "BULK_LOGIN_USER", "", "The user for FTP, FTPS and SFTP addresses that name none. Empty: anonymous."
    )
    login_password: str = setting(
        "BULK_LOGIN_PASSWORD", "", "The password for FTP, FTPS and SFTP addresses that name none.", secret=True
    )
    sftp_key_file: str = setting("BULK_SFTP_KEY_FILE", "", "The private key for SFTP. Empty: passwords only.")
    sftp_known_hosts: str = setting(
        "BULK_SFTP_KNOWN_HOSTS", "", "The keys of trusted SFTP servers. Empty: the user's `~/.ssh/known_hosts`."
    )
    ca_file: str = setting(
        "BULK_CA_FILE", "", "A PEM file of authorities to trust besides the system's, for S3, FTPS and HTTPS."
    )
    contact: str = setting(
        "BULK_CONTACT",
        "",
        "A mail address or page of whoever runs this installation. It stands in the User-Agent for providers that "
        "declare no contact of their own; Wikimedia's are not asked without one.",
    )
    allow_private_http: bool = setting(
        "BULK_ALLOW_PRIVATE_HTTP",
        False,
        "Whether HTTP sources may lie in private networks or on this machine. No: no job can look into them.",
    )
    http_seconds: float = setting(
        "BULK_HTTP_SECONDS", 3600.0, "The longest one HTTP download may take in all, in seconds.", at_least=1
    )
