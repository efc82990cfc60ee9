"""Files that are dropped into a folder, a bucket or an FTP server are taken exactly once and imported.

`sources` says where files are dropped, and `targets` for which tables. A `scan` goes through the sources. It begins
with a `look` at each: `listing` lists what lies there into the `ledger`, and the files that are complete are taken, by
`grouping` many small ones into few jobs. When an import is over, `put_away` moves or removes its files, and `retry`
takes those again whose import failed. `probing` finds out whether sources answer, and `showing` shows people the
ledger.

The ledger in PostgreSQL is the only memory. A look at a source can be repeated, cut short or done by two daemons at
once, with the same result.
"""
