"""Files of web servers as a read-only storage."""
