"""Jobs, their items, and the leases by which items are worked. It needs a database and nothing else.

`jobs`: the life of a job, from its submission to its end. `items`: the leases, settlements and pages of items.
`worker`: the process that leases items and works them. `intake`: how items come into the database.
`states`: which moves the states of jobs and items allow. `kinds`: what a slice tells the engine of its kind of job.
`rate_limit`: one limit for all workers on all hosts.
"""
