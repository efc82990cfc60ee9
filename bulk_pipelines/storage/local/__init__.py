"""A folder of this machine as a storage."""
