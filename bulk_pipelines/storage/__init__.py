"""Storages behind one small interface, and the landing of import sources.

`contract` says what every storage promises; `local`, `s3`, `ftp`, `sftp` and `http` keep these promises, with `access`
to reach them, `tls` to trust them, and `paths` for the names of files. `locations` finds the storage of an address, and
`addresses` reads the address. `landing` copies a source into our own storage, unpacked by `compression`; `seeking` lets
libraries jump about in a file, and `bundles` makes one stream of several. `errors` are what can go wrong.
"""
