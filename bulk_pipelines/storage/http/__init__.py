"""Files of web servers, as a source that can only be read."""
