"""The last stage of an export. The file is written under a temporary name, and gets its own name when it is whole."""
