"""The door over HTTP. `serving` runs it, `endpoints` are what can be asked, `owners` says who asks, `imports` takes
files, and `problems` says how an error is answered. It submits jobs, reads the database and streams; it keeps no state,
so any number of processes may serve, and each may be killed."""
