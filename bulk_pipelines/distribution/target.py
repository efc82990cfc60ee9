"""Where the files go: `YYYY/MM/DD/<job>/<index>_<date>_<asof>.csv` below one folder of a storage."""

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
        """The folder is named for the day in the job's key, the one of its submission."""
        day = job_key.removeprefix("J")
        return f"{day[:4]}/{day[4:6]}/{day[6:8]}/{job_key}/{wanted.name}.csv"

    def path(self, key: str) -> str:
        """The absolute address of a file."""
        return self.storage.url_of(key)

    def key_of(self, path: str) -> str | None:
        """The key of an address; None when it lies elsewhere, as after the target was changed."""
        root = self.storage.url_of("x").removesuffix("x")
        return path.removeprefix(root) if path.startswith(root) else None


def url_of(settings: Settings) -> str:
    return settings.distribution_url or str(settings.home / FOLDER)


def opened(url: str, access: Access) -> Target:
    """A refused request comes back at once: the engine retries it, where a Retry-After counts and people see it."""
    return Target(locations.folder(url, replace(access, s3=replace(access.s3, retries=0)), "BULK_DISTRIBUTION_URL"))
