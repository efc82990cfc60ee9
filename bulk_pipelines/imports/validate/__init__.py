"""The third stage of an import: every record is held to the rules of its resource."""
