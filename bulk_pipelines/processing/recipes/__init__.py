"""What people declare: recipes, their columns, variants and budgets.

`library` finds the declarations, `checking` reads them, and `declaration` is what a recipe says. `types` says what each
type of recipe provides. A query's text is made by `templates`, and written in other ways by `forms`. `suggested` is
what the shell suggests.
"""
