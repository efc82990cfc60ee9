"""The third stage of an import: `validation` checks every record against the rules of its resource, which `rules`
applies to columns. Good ones become `rows` in the form that the database takes."""
