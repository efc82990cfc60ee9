"""Bulk imports, exports, file distribution and long queues of small work on PostgreSQL, run by Dagster.

docs/architecture.md shows the house: which room holds what, and the words that are used.
"""
