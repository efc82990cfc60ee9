"""Rows are looked up by recipes. Every row of a source first becomes an item; then the items are worked, a slice at a
time.

`intake` persists the rows. `recipes` has what people declare, and `providers` asks web services. `lookup`, `reconcile`,
`match`, `wikidata` and `image` are types of recipe, which `types` lists. `work` works one row, `results` says what came
of it, `review` lets people decide about it, `report` shows it, and `control` tries rows again. `matching` finds the
entries of a reference that rows name, `references` holds the references, and `serving` answers the Reconciliation API
with them.
"""
