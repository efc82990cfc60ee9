"""What people do with an import that is over: download its records by their `outcomes`, replay its rejects,
mend them first (`mending`), undo it. `commands` offers that on the command line."""
