"""How the rows of a source become items: they are landed, read, and persisted in batches."""
