"""Bringing the files of an import into our own storage: `landing` copies each once, `conversion` makes plain bytes of
it if records could not be read from it as it is, and a `landed_file` can be read in any order."""
