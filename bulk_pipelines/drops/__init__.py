"""Files dropped into a folder, a bucket or an FTP server, taken exactly once and imported.

The ledger in PostgreSQL is the only memory: a look at a source can be repeated, cut short or done by two daemons at
once, and comes to the same.
"""
