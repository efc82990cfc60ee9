"""The recipe that looks rows up at any web services that answer with JSON: `looking` looks one row up, and `asks` says
how it asks a provider and reads the answer."""
