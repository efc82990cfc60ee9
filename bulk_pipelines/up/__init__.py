"""`bulk up` runs Dagster's UI, its daemon, the code server and the HTTP API on one PostgreSQL; they start and stop
together.

`home` prepares Dagster's folder, `programs` says what is started, and `supervisor` starts them and keeps them running.
`processes` finds all that they have started, and `guard` ends it if the supervisor was killed. `with_dagster` is for
commands: it does, in a process of its own, what needs Dagster.
"""
