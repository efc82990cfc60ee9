"""The server: `application` puts it together from the endpoints, `serving` runs it, `documentation` has its own pages,
and the other modules stand around every request."""
