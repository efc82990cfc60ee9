"""Rows that are worked one by one: matched with a reference, looked up, or seen."""
