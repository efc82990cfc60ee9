"""What people do with an import that is over: download its records by their `outcomes`, replay its rejects, undo it."""
