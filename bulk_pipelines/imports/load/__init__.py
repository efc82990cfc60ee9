"""The fourth stage of an import: valid records go into the table, and the others are kept as rejects."""
