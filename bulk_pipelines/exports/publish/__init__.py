"""The last stage of an export. `target` says where the file goes, and `writing` writes it under a temporary name; it
gets its own name when it is whole. `recount` counts its rows from the file alone."""
