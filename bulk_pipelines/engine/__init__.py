"""Jobs, their items, and the leases under which items are worked. The engine needs a database and nothing else.

`jobs` holds the life of a job, from its submission to its end; `intake` the way of items into the database; `items` the
leases, settlements and pages of items; `worker` the process that leases items and works them, within `limits`, and gets
`outcomes` from handlers. `states` says which moves the states of jobs and items allow, `words` says them to other
programs, `kinds` what a slice tells the engine of its kind of job. `rate_limit` is one limit for all workers on all
hosts, `measures` what they count, and `errors` what can be wrong with a job.
"""
