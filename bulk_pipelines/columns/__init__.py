"""What a value is: the kinds of column, and how each is held in memory, written as text, and sent to PostgreSQL.

Imports, exports and processing share it. Every function takes whole columns, never one value.
"""
