"""Exports: the rows of a resource as a file or a stream of bytes.

`request` says what is asked for, `query` turns it into SQL, `snapshot` and `lanes` read it from one consistent state
of the database, `formats` names the modules that write each format, `streaming` and `writing` are what callers use.
"""
