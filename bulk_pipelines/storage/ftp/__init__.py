"""A folder on an FTP server, with or without TLS, as a storage."""
