"""Which objects of a bucket's folder match a pattern. Names come sorted, so a folder that the pattern does not reach is
skipped without paging through it."""

from collections.abc import Collection, Iterator

from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Entry, Page
from bulk_pipelines.storage.s3.listing import Listed, Listing, version_of

LAST = "\U0010ffff"


def pages(listing: Listing, folder: str, wanted: paths.Pattern, aside: Collection[str]) -> Iterator[Page]:
    """List the files below a folder that match, as `Storage.pages` says."""
    root = f"{folder}/" if folder else ""
    prefix = f"{root}{wanted.folder}/" if wanted.folder else root
    after: str | None = None
    while True:
        for found in listing.pages(prefix, after):
            page = Page()
            for each in found:
                add(page, wanted, aside, each.name.removeprefix(root), each)
            yield page
            if useless := unreached(wanted, aside, found[-1].name.removeprefix(root)):
                after = f"{root}{useless}/{LAST}"
                break
        else:
            return


def add(page: Page, wanted: paths.Pattern, aside: Collection[str], key: str, found: Listed) -> None:
    if found.is_marker or within(aside, key):
        return
    if problem := paths.fault(key):
        page.leave_out(key, problem)
    elif wanted.matches(key) and not paths.is_unfinished(key):
        page.add(Entry(key, found.size, found.modified, version_of(found.etag, found.modified, found.size)))


def within(folders: Collection[str], key: str) -> bool:
    return any(key.startswith(f"{folder}/") for folder in folders)


def unreached(wanted: paths.Pattern, aside: Collection[str], key: str) -> str | None:
    """Return the outermost folder of the key that can hold no match; None if each of them can."""
    return next((folder for folder in paths.folders_of(key) if folder in aside or not wanted.reaches(folder)), None)
