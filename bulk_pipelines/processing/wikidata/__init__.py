"""The recipe that finds companies, people and places in Wikidata: many rows by one request, wherever that can be.

`options` are what it declares. `tiers` leads the `rows` of a claim from one tier to the next, and `asking` spreads the
`questions` of a tier over requests. The answers are `entities`, and `judging` says how likely each is the one that a
row names.
"""
