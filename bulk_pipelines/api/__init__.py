"""The door over HTTP. `serving` runs it, `endpoints` are what can be asked, `owners` says who asks, and `problems` says
how an error is answered. `imports`, `exports` and `items` read what their endpoints are asked, and write the answers;
`files` takes the files that come with requests. The API submits jobs, reads the database and streams. A process keeps
nothing that another one would need, so any number of them may serve, and each may be killed."""
