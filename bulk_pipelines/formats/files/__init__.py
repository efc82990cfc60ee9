"""Files as people have them. `archives` unpacks them, `encodings` makes them UTF-8, `workbooks` chooses a sheet,
`csv_ends` and `json_ends` find where records end, `fields` knows what is alike among their names, `values` and
`expressions` make values from those that are there, and `unfit` says that a file does not fit."""
