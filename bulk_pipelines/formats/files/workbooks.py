"""Which sheet of a workbook is meant."""

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files.archives import Archive
from bulk_pipelines.formats.files.unfit import Unfit
from bulk_pipelines.formats.xlsx_book import Book

SHOWN = 5
HAS_CELLS = 4 << 20


def chosen(archive: Archive, book: Book, told: str | None) -> tuple[str, str]:
    """Return the name and the part of the sheet that is meant."""
    names = [name for name, _, _ in book.sheets]
    if told is not None:
        if told not in names and not (told.isdecimal() and 0 < int(told[:9]) <= len(names)):
            raise InvalidInput("sheet", f"the workbook has no sheet {told[:100]!r}, it has {listed(names)}")
        name, part, _ = book.sheets[names.index(told) if told in names else int(told) - 1]
        return name, part
    visible = [(name, part) for name, part, hidden in book.sheets if not hidden]
    full = [each for each in visible if has_cells(archive, each[1])] if len(visible) > 1 else visible
    if len(full) == 1:
        return full[0]
    several = [name for name, _ in full or visible]
    if not several:
        raise InvalidInput("source", "all sheets of the workbook are hidden: say --sheet NAME")
    raise Unfit("source", f"the workbook has the sheets {listed(several)}: say --sheet NAME", {"sheet": several[0]})


def has_cells(archive: Archive, part: str) -> bool:
    """Tell whether some cell of a sheet has a value, as far as its first megabytes tell."""
    before = archive.unpacked
    size = 0
    try:
        for piece in archive.unpack(part):
            size += len(piece)
            if b"<v>" in piece or b"<v " in piece or b"<is>" in piece:
                return True
            if size > HAS_CELLS:
                break
        return False
    finally:
        archive.unpacked = before


def listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(repr(name[:40]) for name in names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
