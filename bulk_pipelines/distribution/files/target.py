"""Where the files go: they are called `YYYY/MM/DD/<job>/<index>_<date>_<asof>.csv` below one folder of a storage."""

from dataclasses import dataclass, replace

from bulk_pipelines.distribution.request import Input
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage

FOLDER = "distribution"


@dataclass(frozen=True)
class Target:
    storage: Storage

    def key(self, job_key: str, wanted: Input) -> str:
        """Return the key of an input's file. Its folder is named for the day in the job's key, on which the job was
        submitted."""
        day = job_key.removeprefix("J")
        return f"{day[:4]}/{day[4:6]}/{day[6:8]}/{job_key}/{wanted.name}.csv"

    def path(self, key: str) -> str:
        """Return the absolute address of a file."""
        return self.storage.url_of(key)

    def key_of(self, path: str) -> str | None:
        """Return the key of a file's address; None when the file lies elsewhere, for example because the target was
        changed since."""
        root = self.storage.url_of("x").removesuffix("x")
        return path.removeprefix(root) if path.startswith(root) else None


def url_of(settings: Settings) -> str:
    return settings.distribution_url or str(settings.home / FOLDER)


def opened(url: str, access: Access) -> Target:
    """Open the folder of an address as a target. The storage does not retry a refused request: the engine retries it,
    which heeds a Retry-After and shows it to people."""
    return Target(locations.folder(url, replace(access, s3=replace(access.s3, retries=0)), "BULK_DISTRIBUTION_URL"))
