"""The fourth stage of an import: valid records go into the table, and the others are kept as rejects.

`loading` loads a batch in a transaction, if the table is still the `same_table`. `writing` writes the rows by COPY. If
the table objects, `conflicts` finds out to which rows: it asks the `checks` of the table, and `refusals` and `left_out`
tell which rows the table did not take. `weeding` finds the values that PostgreSQL cannot read, and those of which a
type would lose a part (`losses`). `conflict_reasons` are what people are told of all this, and `rejects` keeps the
records.

`staging` makes the tables that an import into a table of somebody else has for itself, and `tables` are pieces of SQL
about all of them.
"""
