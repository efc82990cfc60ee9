"""How items come into the database: `payload` checks them, and `persist` writes them in batches whose size `adaptive`
finds live. `submission` writes a job and its items at once, if all of them are known by then."""
