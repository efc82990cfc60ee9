"""Rows are looked up by recipes. Every row of a source first becomes an item; then the items are worked, a slice at a
time.

`intake` persists the rows. `recipes` has what people declare, and `providers` asks web services. `lookup`, `reconcile`,
`match`, `wikidata` and `image` are types of recipe, which `types` lists. `work` works one row, `results` says what came
of it, and logs and providers know each try by its `envelope`; `review` lets people decide about the row, `report` shows
it, and `control` tries rows again, those that meet the `conditions` that people write. A `trial` shows what a recipe
would do. `matching` finds the entries of a reference that rows name, `references` holds the references, and `serving`
answers the Reconciliation API with them.
"""
