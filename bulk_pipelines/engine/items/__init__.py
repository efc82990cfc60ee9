"""Items in the database: they are leased, settled, rescued, and shown in pages."""
