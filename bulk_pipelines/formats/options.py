"""The options that tell how a file is to be read, in words for the doors. Nothing is imported here, so that a
command line shows its help at once."""

FLAGS = ("no_header", "ignore_extra")
SEVERAL = ("nulls", "dates", "map", "ignore", "constants", "expressions")
REPEATED = {"nulls": "null", "dates": "date", "constants": "constant", "expressions": "expression"}
"""The names of options on the command line, where each stands for one value, and may be repeated."""
HELP = {
    "delimiter": "CSV: what separates fields: comma, semicolon, tab, pipe or a character; recognised when left out.",
    "quote": 'CSV: what quotes a field, " when left out; none: nothing does.',
    "escape": "CSV: what stands before a character that means itself, such as \\; nothing when left out.",
    "encoding": "utf-8, utf-16, cp1252, latin-1, …; UTF-8, or what a byte order mark tells, when left out.",
    "skip_lines": "How many lines (of a sheet: rows) stand before the header.",
    "no_header": "The first line is a record. Its fields are those that are named, or the columns in their order.",
    "fields": "The names of the fields of a file without a header: id,email,name.",
    "nulls": "A spelling of no value, such as NULL or -, besides the empty field; may be repeated.",
    "decimal": "comma: numbers are written 1.234,56.",
    "dates": "COLUMN=FORM, such as born=%d.%m.%Y: how dates are written that are not ISO 8601.",
    "sheet": "XLSX: the name or the number of the sheet; the only one with content when left out.",
    "member": "Archives: which of the files are meant, such as *.csv; all when left out.",
    "map": "COLUMN=FIELD: the field of the file that goes to a column.",
    "ignore": "A field that is left out; may be repeated.",
    "ignore_extra": "Leave out all fields that fit no column.",
    "constants": "COLUMN=VALUE: the column gets this value in every record.",
    "expressions": "COLUMN=SQL: PostgreSQL makes the value from the fields: full_name=first || ' ' || last.",
}
"""What each option is, for the doors."""
