"""The recipe that finds companies, people and places in Wikidata: many rows by one request, wherever that can be."""
