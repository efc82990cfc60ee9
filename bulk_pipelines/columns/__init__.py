"""The column kinds, and how the values of each are held in memory, written as text, and sent to PostgreSQL.

`kinds` declares them; `arrow` holds columns in memory. `conversion` makes the values of a kind from the texts of a
file, with `timestamps`, `uuids` and `text_lists` for theirs, and `array_texts` for arrays as PostgreSQL writes them.
`binary_copy` sends columns in the binary form of COPY, and `binary_forms` writes texts in that form; `text_copy` sends
what only PostgreSQL can read.

Imports, exports and processing share this. Every function takes whole columns, never one value.
"""
