"""How items come into the database: they are checked, then written in batches whose size is found live."""
