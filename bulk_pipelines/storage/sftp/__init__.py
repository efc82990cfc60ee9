"""A folder on an SSH server as a storage. `storage` keeps the promises, `pool` lends it channels of one connection,
`reading` reads files, and `listing` lists folders."""
