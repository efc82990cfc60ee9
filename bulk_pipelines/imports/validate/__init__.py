"""The third stage of an import: every record is checked against the rules of its resource."""
