"""A folder of an S3 bucket as a storage. `storage` keeps the promises, `store` reaches the bucket, `walk` finds the
objects of a pattern in what `listing` lists, and `ranges` makes requests that the library cannot make. `errors` reads
what servers refuse."""
