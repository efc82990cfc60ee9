"""A folder on an SSH server as a storage. `storage` keeps the promises, `pool` lends it channels of one connection,
`reading` and `writing` read and write files, and `listing` lists folders."""
