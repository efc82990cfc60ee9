"""Jobs, their items, and the leases by which items are worked. Needs a database and nothing else."""
