"""Imports: files of records, checked by columns and loaded by COPY.

In the order of the work: `source` (the landed file), `layout` (its format and columns), `cutting` (into ranges),
`blocks` and `parsing` (into columns), `validation`, `loading` (into the table), `settlement` (what only the whole file
can tell), `rejects` and `undo`.
"""
