"""Writers of files that hold whole tables: `parquet`, `arrow`, and `xlsx` with its parts. Exports and the grid of
processing share them."""
