"""The first stage of an import, which ends with its items.

`planning` leads each `import_file` through three rooms: `land` brings it into our own storage, `inspect` finds out how
it is written and which field goes to which column, and `cut` divides it into ranges. Before an import is submitted,
`beforehand` and `fitting` tell whether its files can be had and fit; `agreement` compares the tables with their
declaration.
"""
