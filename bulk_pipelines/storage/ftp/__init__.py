"""A folder on an FTP server, with or without TLS, as a storage. `storage` keeps the promises, `pool` lends it a
`connection`, by `tls` where that is wanted, `walk` goes through folders, `listing` reads what servers list, and
`errors` what they refuse."""
