"""The console: pages for people who watch and mend. `pages` are what can be looked at and done, `application` puts them
together, `frame` draws what stands around each of them, `shown` says how values look. It calls the same functions of
the slices as the command line and the API do."""
