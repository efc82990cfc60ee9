"""The landed files of an import: making them from their sources, opening them for reading, and removing them."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from bulk_pipelines import settings
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.errors import BulkError, Permanent, Unavailable
from bulk_pipelines.formats.files.archives import Archive
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.land import conversion
from bulk_pipelines.imports.plan.land.conversion import Conversion
from bulk_pipelines.imports.plan.land.landed_file import LandedFile, LocalFile, StoredFile
from bulk_pipelines.imports.request import ImportRequest, RequestedFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import landing, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Entry, Storage
from bulk_pipelines.storage.errors import Full, Missing
from bulk_pipelines.storage.landing import Landed, Limits
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines.storage.locations import Sources

NOT_THE_FILES = (Unavailable, Full)
"""Errors that say nothing of the file that met them: it is not left out, and the plan as a whole fails."""


def place(chosen: Settings) -> str:
    """Return the address or path of the folder in which all landed files lie."""
    return chosen.landing_url or str(chosen.home / "landed")


@dataclass(frozen=True)
class Landing:
    """What the landings of one import share: the connections to its sources, which stay open from one file to the next,
    and the folder that they land in. Threads may share a `Landing`."""

    request: ImportRequest
    sources: Sources
    into: Storage
    limits: Limits

    def land(self, file: RequestedFile, name: str) -> Landed:
        """Land a file under a name that belongs to the job, so that landing it again comes to the same file."""
        return landing.land_from(
            self.sources, file.source, self.into, name, self.limits, self.request.compression, version=file.version
        )

    def convert(self, file: ImportFile, name: str, *, sent: bool = False) -> list[ImportFile]:
        """Convert a landed file if its records cannot be read as it is. The copy that was landed first is removed, but
        for one that was `sent` with a request, which belongs to its upload. Return the file as it is read then, or the
        files of an archive or a bundle that holds several, behind the archive itself."""
        with opened(file) as source:
            bundle = conversion.bundle_of(source, file.source, self.limits)
            if bundle is None:
                return self.converted(file, name, sent=sent)
            found = list(self.unbundled(file, bundle, name))
        if not sent:
            self.remove(file, name)
        return [replace(file, landed=None, landed_version=None), *found]

    def unbundled(self, file: ImportFile, bundle: Archive, name: str) -> Iterator[ImportFile]:
        """Land and convert the files of a bundle, each as if it had come alone. If one cannot be used, note why, so
        that the import goes on with the others."""
        assert file.landed is not None
        target = f"{name}-{conversion.named(file.landed, self.request.reading)}"
        for number, member in enumerate(bundle.bundled(), 1):
            each = replace(of_archive(file, storable(member.filename)), size=member.file_size, sha256=None)
            entry = Entry(each.source, member.file_size, None, target)
            try:
                copy = landing.land_stream(
                    bundle.unpack(member), entry, each.source, self.into, f"{target}.{number:05}", self.limits
                )
                each = landed_as(each, copy)
                yield from self.converted(each, name)
            except BulkError as error:
                if isinstance(error, NOT_THE_FILES):
                    raise
                yield replace(each, landed=None, landed_version=None, note=storable(str(error)))

    def converted(self, file: ImportFile, name: str, *, inside: bool = False, sent: bool = False) -> list[ImportFile]:
        """Convert a landed file that is no bundle. `inside` tells that it came out of an archive."""
        assert file.landed is not None
        made = Conversion(self.request.reading, self.request.format, self.into, self.limits)
        target = f"{name}-{conversion.named(file.landed, self.request.reading)}"
        with opened(file) as source:
            parts = made.parts(source, target, file.source, inside=inside)
        if parts is None:
            return [file]
        if not sent:
            self.remove(file, name)
        found = []
        for part in parts:
            each = landed_as(file, part.landed)
            if part.member is not None:
                each = of_archive(each, f"{file.source}/{storable(part.member)}")
            found += [each] if part.is_final else self.member(each, name)
        return [replace(file, landed=None, landed_version=None), *found] if len(parts) > 1 else found

    def member(self, file: ImportFile, name: str) -> list[ImportFile]:
        """Convert a file of an archive. If it cannot be used, note why, so that the import goes on with the others."""
        try:
            return self.converted(file, name, inside=True)
        except BulkError as error:
            if isinstance(error, NOT_THE_FILES) or file.archive is None:
                raise
            return [replace(file, landed=None, landed_version=None, note=storable(str(error)))]

    def remove(self, file: ImportFile, name: str) -> None:
        """Remove a landed file that was converted, if it has the name of the job's file."""
        key = f"{name.rpartition('/')[0]}/{(file.landed or '').rpartition('/')[2]}"
        if key.startswith(name) and self.into.url_of(key) == file.landed:
            self.into.delete(key)

    def gone(self, file: RequestedFile) -> str | None:
        """Say why the version of the file that is meant can never be landed; return None if it is still at its source,
        or if any version will do."""
        if file.version is None:
            return None
        source, key = self.sources.source(file.source, "source")
        try:
            same = source.stat(key).version == file.version
        except Missing:
            return "it was removed before it was landed"
        except Permanent as error:
            return str(error)
        return None if same else "it was replaced before it was landed"


def landed_as(file: ImportFile, copy: Landed) -> ImportFile:
    return replace(file, landed=copy.url, landed_version=copy.version, size=copy.bytes, sha256=copy.sha256)


def of_archive(file: ImportFile, source: str) -> ImportFile:
    """Return a file that came out of this one. What came out of an archive in a bundle counts as a file of the
    bundle."""
    asked = RequestedFile(file.requested.source, name=file.requested.name)
    outer = file.number if file.archive is None else file.archive
    return replace(file, number=0, requested=asked, source=source, archive=outer)


@contextmanager
def begun(request: ImportRequest, chosen: Settings) -> Iterator[Landing]:
    """Begin to land the files of an import. The connections are closed at the end of the block."""
    access = access_of(chosen)
    with (
        locations.folder(place(chosen), access, "BULK_LANDING_URL") as into,
        Sources(access, request.within) as sources,
    ):
        yield Landing(request, sources, into, landing.limits_of(chosen))


def still_there(files: Iterable[ImportFile], chosen: Settings) -> list[ImportFile]:
    """Return the files whose copies are still there as they were landed. If nothing was landed of a file, nothing is
    missing: then it is among them."""
    with Sources(access_of(chosen)) as places:
        return [file for file in files if file.landed is None or is_there(places, file, file.landed)]


def is_there(places: Sources, file: ImportFile, landed: str) -> bool:
    place, key = places.source(landed, "landed")
    try:
        return is_landed(file, place.stat(key).version)
    except Missing:
        return False


def is_landed(file: ImportFile, version: str) -> bool:
    """Tell whether this version of the landed file is the one that was landed, or has the same content. A plan that was
    cut short may have landed it a second time, and the copies may have been moved to another disk."""
    assert file.landed is not None
    return version == file.landed_version or hash_of(file.landed, version) == file.sha256


@lru_cache(maxsize=1_000)
def hash_of(landed: str, version: str) -> str:
    """Return the SHA-256 of this version of a landed file."""
    storage, key = locations.file(landed, access_of(settings.current()), "landed")
    found = hashlib.sha256()
    with storage, storage.open(key, version=version) as reader:
        for piece in reader:
            found.update(piece)
    return found.hexdigest()


def remove(storage: Storage, job_key: str, but: Collection[str] = ()) -> None:
    """Remove the landed files of a job that needs them no more, `but` for these, and the files in which its rejects
    were run again."""
    for pattern in (f"{job_key}/*", f"{job_key}-rejects.*"):
        storage.delete(*(entry.key for entry in list(storage.entries(pattern)) if entry.key not in but))
    if isinstance(storage, LocalStorage):
        with suppress(OSError):  # the folder never was, or somebody put something else into it
            (storage.root / job_key).rmdir()


@contextmanager
def opened(file: ImportFile) -> Iterator[LandedFile]:
    """Open a landed file as it was landed. A file in a local folder is read in place; one in another storage is read by
    ranges. Raise an error if something else lies there now."""
    assert file.landed is not None
    storage, key = locations.file(file.landed, access_of(settings.current()), "landed")
    with storage, ExitStack() as until_read:
        source: LocalFile | StoredFile
        if isinstance(storage, LocalStorage):
            source = until_read.enter_context(LocalFile(storage.root / key))
        else:
            entry = storage.stat(key)
            source = StoredFile(storage, key, entry.size, entry.version)
        if not is_landed(file, source.version):
            raise Permanent(f"the landed file {file.landed} is not the one that was landed: its content is another one")
        yield source
