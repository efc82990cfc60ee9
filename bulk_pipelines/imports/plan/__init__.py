"""The first stage of an import: its files are landed, examined, and cut into ranges."""
