"""The fourth stage of an import: valid records go into the table, the others are kept as rejects."""
