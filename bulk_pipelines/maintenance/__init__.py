"""What keeps the system clean and honest. Each pass runs by schedule, or once by a command.

`sweep` deals with leases that ran out, jobs whose end was not written, and the silent jobs and stray runs about which
`lost_runs` decides. `retention` removes what is old. `control` is for people in Dagster's UI; `commands`,
`job_commands` and `resource_commands` are for those at a command line, and `job_answers` says how any job stands.
"""
