"""A folder on an SSH server as a storage."""
