"""The parts of an XLSX file other than its rows (ECMA-376, SpreadsheetML)."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.resources.declaration import Column

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"

# The numbers of the cell formats in STYLES.
MOMENT, HEADER = 1, 2

STYLES = (
    f'{HEAD}<styleSheet xmlns="{MAIN}">'
    '<numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss.000"/></numFmts>'
    '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)

# The columns are wide enough to be read: a time in a column of the usual width shows as ####.
WIDTHS = dict.fromkeys(ColumnKind, 24) | {
    ColumnKind.UUID: 38,
    ColumnKind.BOOLEAN: 10,
    ColumnKind.SMALLINT: 10,
    ColumnKind.INTEGER: 14,
}

SHEET_END = b"</sheetData></worksheet>"


def sheet_path(number: int) -> str:
    return f"xl/worksheets/sheet{number}.xml"


def column_letters(index: int) -> str:
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def sheet_start(columns: tuple[Column, ...]) -> bytes:
    """Return a sheet up to its first row of data. The header stays in sight when somebody scrolls."""
    widths = "".join(
        f'<col min="{number}" max="{number}" width="{WIDTHS[column.kind]}" customWidth="1"/>'
        for number, column in enumerate(columns, start=1)
    )
    names = "".join(
        f'<c r="{column_letters(index)}1" s="{HEADER}" t="inlineStr"><is><t>{escape(column.name)}</t></is></c>'
        for index, column in enumerate(columns)
    )
    return (
        f'{HEAD}<worksheet xmlns="{MAIN}"><sheetViews><sheetView workbookViewId="0">'
        '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>'
        f'<cols>{widths}</cols><sheetData><row r="1">{names}</row>'
    ).encode()


def first_parts() -> Iterator[tuple[str, str]]:
    """Yield the parts that are known before the rows are."""
    whole = f'<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    yield "_rels/.rels", f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{whole}</Relationships>'
    yield "xl/styles.xml", STYLES


def last_parts(title: str, sheets: int) -> Iterator[tuple[str, str]]:
    """Yield the parts that name the sheets, once it is known how many there are."""
    numbers = range(1, sheets + 1)
    yield (
        "xl/workbook.xml",
        f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>'
        + "".join(f'<sheet name={quoteattr(sheet_name(title, n))} sheetId="{n}" r:id="rId{n}"/>' for n in numbers)
        + "</sheets></workbook>",
    )
    yield (
        "xl/_rels/workbook.xml.rels",
        f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="rId{n}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
        )
        + f'<Relationship Id="rId{sheets + 1}" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
    )
    yield (
        "[Content_Types].xml",
        f'{HEAD}<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{TYPE}.styles+xml"/>'
        + "".join(f'<Override PartName="/{sheet_path(n)}" ContentType="{TYPE}.worksheet+xml"/>' for n in numbers)
        + "</Types>",
    )


def sheet_name(title: str, number: int) -> str:
    return title if number == 1 else f"{title} {number}"
