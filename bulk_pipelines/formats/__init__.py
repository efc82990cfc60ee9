"""Writers of files that hold whole tables: `parquet`, and `xlsx` with its parts. Exports and the grid of processing
share them."""
