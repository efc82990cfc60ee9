"""The recipe that looks rows up at any web services that answer with JSON."""
