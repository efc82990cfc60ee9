"""What Dagster does for every kind of job: plan, lanes and finish as steps, the runs and their jobs, and the relay.

`pipeline` holds what a slice says of its kind of job, and `steps` makes the steps of its runs. `relay` launches a run
for each job that wants one, and `command_runs` one in the process of a command; `runs` says what a run may do, and
`terminations` what it means to end one. `checks`, `failures` and `alerts` tell people, `launchpad` takes their wishes,
`history` removes what is old, `storage` and `schema` keep what Dagster writes, and `resources` are what steps need.
"""
