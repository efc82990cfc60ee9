"""What files are read and written by: writers of whole tables, readers of tables as rows, archives, encodings, and the
options that tell how a file is read. Imports, exports and processing share them."""
