"""The column kinds, and how the values of each are held in memory, written as text, and sent to PostgreSQL.

Imports, exports and processing share this. Every function takes whole columns, never one value.
"""
