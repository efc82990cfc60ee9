"""PostgreSQL, below everything else that needs it.

`address` says which database is meant, `embedded` is the server that comes with the program, and `folders` are those of
the installation. `ready` gives a database whose schema is as the program needs it: `migrations` make the schema,
`schemas` are for roles that may make none, and `moving` brings into it what an older version made elsewhere. `samples`
are tables to try the program with.

`pool` lends connections; `session` sets each of them up, and `pooler` refuses one that does not lead to a server
process of its own. `namespaces` says what names mean in a session, `rights` what roles may do, and `queries` finds the
SQL of `sql/` by its names. `advisory` are locks of a session, and `holding` keeps tables as they are until they are
read. `faults` tells what an error says about trying again, and `logs` finds the line of a log that says what went
wrong.
"""
