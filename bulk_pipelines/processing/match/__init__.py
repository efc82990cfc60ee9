"""The recipe that matches rows with a reference in the database, or with a file that is loaded there. `options` are
what it declares, `matching` matches the rows of a claim, and `one_to_one` decides at the end which row keeps an
entry."""
