"""The recipe that asks a service of the W3C Reconciliation API: `reconciling` asks for many rows by one request, and
`protocol` knows how such a service is asked."""
