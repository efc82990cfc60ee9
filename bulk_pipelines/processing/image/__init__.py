"""The recipe that reads pictures: size, format, colours, a hash for near-doubles, thumbnails without metadata."""
