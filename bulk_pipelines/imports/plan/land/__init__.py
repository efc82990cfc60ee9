"""Bringing the files of an import into our own storage, as plain bytes that can be read in any order."""
