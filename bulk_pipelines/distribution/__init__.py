"""Many inputs in a job, one CSV file each: produced from a query, or reused when it was produced before."""
