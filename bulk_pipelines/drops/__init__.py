"""Files that are dropped into a folder, a bucket or an FTP server are taken exactly once and imported.

The ledger in PostgreSQL is the only memory. A look at a source can be repeated, cut short or done by two daemons at
once, with the same result.
"""
