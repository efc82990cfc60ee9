"""A folder of an S3 bucket as a storage."""
