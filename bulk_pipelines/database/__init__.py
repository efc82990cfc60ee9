"""PostgreSQL: connections, sessions, migrations, named queries, and the embedded server."""
