"""`bulk --server`: commands that speak to an HTTP API in place of a database. `commands`, `file_commands` and
`job_commands` have them, with the options of the commands that they stand for; `watching` shows how far a job is, and
`previews` how a file would be read."""
