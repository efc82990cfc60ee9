"""The door over HTTP.

`serving` runs it, `endpoints` are what can be asked, `door` is what all of them need, and `owners` says who asks.
`imports`, `exports` and `items` read what their endpoints are asked, and write the answers; `files` takes the files
that come with requests.

`submissions` answers whoever submits a job: `idempotency` knows a request that comes again, and `preferences` lets an
answer wait for the end of a small job. `live` watches the `states` of jobs for all who listen, and `events` tells them.
`pages` makes lists, `moments` reads times in addresses, and `streams` makes long answers piece by piece. `reading`
bounds how many requests read at once, and `stops` ends work that takes long when the process is to stop. `problems`
says how an error is answered, `readiness` what is wrong with the API, and `metrics` how it is doing.

The API submits jobs, reads the database and streams. A process keeps nothing that another one would need, so any number
of them may serve, and each may be killed.
"""
