"""How a file is written, in words: its encoding, its delimiter, its sheet."""

from bulk_pipelines.formats import parquet_rows, sheets
from bulk_pipelines.formats import rows as row_files
from bulk_pipelines.formats.files import archives, encodings
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land import conversion, landing
from bulk_pipelines.imports.plan.land.landed_file import LandedFile

PACKED_TABLE = "parquet or arrow"
"""What is said of a table that came out of an archive: its rows do not tell what it was."""
MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}


def encoding_of(file: ImportFile, reading: Reading) -> dict[str, str]:
    """Say in which encoding a text is, or of which format a table."""
    with landing.opened(file) as source:
        head = source.read(0, min(conversion.HEAD, source.size))
    if head.startswith(archives.MAGICS):
        return {}
    if head.startswith(conversion.TABLES):
        return {"format": "parquet" if head.startswith(parquet_rows.PARQUET) else "arrow"}
    return {"encoding": encodings.found(head, reading.encoding) or "utf-8"}


def described(source: LandedFile, found: Layout, reading: Reading) -> dict[str, str]:
    """Say how the file is written."""
    if found.format is Format.ROWS:
        sheet = sheets.told(row_files.opened(source)[0])
        if sheet is None:
            return {}
        return {"format": "xlsx", "sheet": sheet.name} | ({"header": f"row {sheet.header}"} if sheet.header else {})
    said = {"format": str(found.format)}
    if found.format is not Format.CSV:
        return said
    dialect = found.dialect
    said["delimiter"] = MARKS.get(dialect.delimiter, dialect.delimiter)
    if dialect.quote != '"':
        said["quote"] = dialect.quote or "none"
    if dialect.escape is not None:
        said["escape"] = dialect.escape
    said["header"] = "none" if reading.no_header else f"line {found.first_line - 1}"
    return said
