"""What files are read and written by: writers of whole tables, readers of tables as rows, archives, encodings, the options
that tell how a file is read, and what goes wrong when it does not fit. Imports, exports and processing share them."""
