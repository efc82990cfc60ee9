"""Storages behind one small interface, and the landing of import sources.

`locations` turns a URL into a storage; `contract` says what every storage promises; `landing` copies a source once.
"""
