"""The door over HTTP. `serving` runs it, `application` puts it together from `endpoints`, `callers` says who asks, and
`problems` says how an error is answered. It submits jobs, reads the database and streams; it keeps no state, so any
number of processes may serve, and each may be killed."""
