"""The second stage of an import: the records of a range are read from the landed file as columns.

`blocks` reads a range in blocks of whole records. A block becomes columns by `csv_parsing`, `json_parsing` or
`rows_parsing`, which leaves to `typed_values` what has a type, and what they give is `parsed`. `json_texts` prepares
JSON that columns of text need, and `json_record` judges a record that cannot be read so. `mapping` makes the columns of
the resource of the fields.
"""
