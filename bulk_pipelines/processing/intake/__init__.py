"""How the rows of a source become items.

`planning` persists them in batches, before any is worked. `sources` lands a file; `collections` goes through a folder
or one of the `archives`, of which each file is a row. `records` reads the rows of a file, by `csv_records` and
`json_records`, and `tables` reads those of other formats. `shaping` gives them the columns of the recipe, and `rows` is
one of them as an item holds it.
"""
