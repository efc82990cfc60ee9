"""`bulk --server`: commands that speak to an HTTP API in place of a database. They stand in `commands`, `file_commands`
and `job_commands`, and have the options of the commands that they replace. `watching` shows how far a job is, and
`previews` how a file would be read."""
