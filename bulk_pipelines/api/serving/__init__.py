"""The server: `application` puts it together from the endpoints, `serving` runs it, and the others stand around every
request."""
