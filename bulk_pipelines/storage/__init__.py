"""Storages behind one small interface, and the landing of import sources.

`contract` says what every storage promises; `local`, `s3`, `ftp`, `sftp` and `http` keep these promises. `locations`
finds the storage of an address, and `landing` copies a source into our own storage.
"""
