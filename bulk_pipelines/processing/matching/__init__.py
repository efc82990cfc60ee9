"""The matcher: which entry of a reference does a row name?

`entries` says what a reference entry and a query are; `folding` brings names of all scripts into one alphabet;
`variants` are the texts that an entry can be found by; `grams` turns them into trigrams; `index` holds a reference in
`memory`, and `candidates` finds its entries for queries; `features` compares a query with its candidates, from what
`comparing` prepares; `model` turns what was compared into a probability, and `training` makes a model; `scoring` does
that for batches, `matching` gives the verdicts, and `results` is their form. None of them needs a database.
`references` streams a table of PostgreSQL into an index.
"""
