"""Files that come with a request, or from an address in it: `receiving` takes bodies as they arrive, `forms` and `sent`
find the file in them, `reading` says how it is to be read, `sources` which addresses may be named, and `described`
tells programs all of it."""
