"""A worker: it leases items a slice at a time, works them, decides about retries, and settles the outcomes."""
