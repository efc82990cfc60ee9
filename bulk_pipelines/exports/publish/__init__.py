"""The last stage of an export: the file is written under a temporary name and published whole."""
