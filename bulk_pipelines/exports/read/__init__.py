"""The first stage of an export reads its rows from one snapshot, over one or several connections."""
