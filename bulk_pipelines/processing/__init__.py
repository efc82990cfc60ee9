"""Rows first: every row of a source becomes an item, and the items are worked as a recipe says, a slice at a time.

`intake` persists the rows; `recipes` and `providers` hold what is declared and how providers are asked; `lookup` and
`reconcile` are types of recipe, and `types` lists all of them. `work` works one row, `results` says what came of it,
`report` shows it, and `control` tries rows again.
"""
