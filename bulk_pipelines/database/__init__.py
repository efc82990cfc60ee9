"""PostgreSQL: the embedded server, connections, migrations and named queries."""
