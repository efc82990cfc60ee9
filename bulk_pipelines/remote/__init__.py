"""`bulk --server`: commands that speak to an HTTP API in place of a database. `commands` has them, with the options of
the commands that they stand for, and `watching` shows how far a job is."""
