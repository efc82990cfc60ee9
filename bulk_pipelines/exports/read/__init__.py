"""The first stage of an export reads its rows from one snapshot, over one or several connections.

`query` writes the request as SQL, and `snapshot` divides it into parts that are all of one state of the database.
`copying` reads rows as bytes that PostgreSQL wrote, `batches` as Arrow's record batches, and `counting` counts the
latter. `readers` joins the parts in their order, and `listening` finds out whether the export is still wanted.
`preview` reads the first rows for people.
"""
