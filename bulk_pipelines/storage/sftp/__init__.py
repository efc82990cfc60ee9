"""A folder on an SSH server as a storage. `storage` keeps the promises, `pool` lends it channels of one connection, and
`listing` lists folders."""
