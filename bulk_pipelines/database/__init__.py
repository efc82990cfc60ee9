"""PostgreSQL, below everything else that needs it.

`address` says which database is meant, and `embedded` is the server that comes with the program. `pool` lends
connections, and `session` sets each of them up; `namespaces` says what names mean in it. `migrations` make the schema,
`rights` is about what roles may do, `queries` finds the SQL of `sql/` by its names, and `faults` tells
what an error says about trying again.
"""
