"""Items in the database: leased, settled, rescued, and shown in pages."""
