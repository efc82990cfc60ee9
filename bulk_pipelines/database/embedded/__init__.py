"""The embedded PostgreSQL server of one installation, which all its processes share.

`binaries` finds PostgreSQL's programs, and `owner` the user that a server runs as. `server` runs one in a folder, with
`locks` that the kernel keeps and the `machine` noted on which it was started. `shared` lends it to the processes of an
installation, and `keeper` stops it when the last of them is gone.
"""
