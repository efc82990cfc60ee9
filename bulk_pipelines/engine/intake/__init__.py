"""How items come into the database: checked, then written in batches whose size is found live."""
