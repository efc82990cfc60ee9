"""The server: `application` puts it together from the endpoints, `serving` runs it, `documentation` has its own pages.

The other modules stand around every request: `connections` bounds how long a client may take, `tracing` gives the
request its identity, `bodies` refuses what no endpoint could read, `heads` answers HEAD wherever there is GET, and
`origins` lets pages of other origins ask reconciliation services.
"""
