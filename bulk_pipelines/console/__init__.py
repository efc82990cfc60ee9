"""The console: pages for people who watch jobs and mend them. `pages` has a module for each page, `application` puts
them together, `frame` draws what stands around each of them, and `shown` says how values look. The console calls the
same functions of the slices as the command line and the API do."""
