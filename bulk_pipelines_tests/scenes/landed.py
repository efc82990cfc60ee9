"""Files to land, and what was landed of them."""

import hashlib
from pathlib import Path

from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.landing import Landed

MB = 1 << 20
ROWS = b"".join(b"%d,user%d@example.com,Name %d,admin,true\n" % (n, n * 7919 % 100_003, n) for n in range(60_000))


def written(folder: Path, data: bytes, name: str = "source") -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


NOTHING = Access()


def landed_bytes(landed: Landed, access: Access = NOTHING) -> bytes:
    storage, key = locations.file(landed.url, access)
    return storage.read(key, version=landed.version)


def nothing_left(into: Storage) -> bool:
    folder = Path(into.url_of("x")).parent
    return not folder.exists() or not [each for each in folder.rglob("*") if each.is_file()]
