"""What can be known of files before anything is submitted: whether they are there and can be read."""

from collections.abc import Sequence
from pathlib import Path

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses


def local_path(source: str) -> Path | None:
    """Return where a file of this machine lies; None if it lies elsewhere."""
    address = addresses.parse(source, "source")
    return Path(address.path) if address.scheme == "file" else None


def require_files(sources: Sequence[str]) -> None:
    """Raise `InvalidInput` for the first file of this machine that is not there or cannot be read."""
    for source in sources:
        path = local_path(source)
        if path is None:
            continue
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise InvalidInput("source", f"{path}: {error.strerror}") from None
