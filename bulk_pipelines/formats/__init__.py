"""What files are read and written by. Imports, exports and processing share it.

How a file is read begins with what people tell of it: `options` has the words for that, `flags` makes flags of the
command line of them, and `reading` is what was told. `files` unpacks a file and knows its fields. A file that is a
table becomes `rows`, batches of Arrow that can be cut: `parquet_rows` reads Parquet and Arrow, and `xlsx_rows` a sheet
of the workbook that `xlsx_book` describes, in which `xlsx_scan` finds the cells; `sheets` remembers where the header
was. `row_values` makes of the values what was told of them. `json_objects` refuses JSON that Python would take.

`typed` gives Arrow's values as they would stand in a CSV file.

Writers of whole tables are `parquet`, `arrow` and `xlsx`, which puts `xlsx_cells` into an `xlsx_package`. `ahead` makes
what comes next in a thread.
"""
