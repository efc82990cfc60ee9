"""The matcher: which entry of a reference does a row name?

`entries` says what a reference entry and a query are; `folding` brings names of all scripts into one alphabet; `grams`
turns them into trigrams; `index` holds a reference in memory and finds candidates; `features` compares a query with its
candidates; `model` turns what was compared into a probability; `matching` gives the verdicts. None of them needs a
database. `references` streams a table of PostgreSQL into an index.
"""
