"""The recipe that asks a service of the W3C Reconciliation API, many rows by one request."""
