"""Imports: files of records, checked by columns and loaded by COPY.

`request` holds what was asked for, and `sent` the files that came with it; `submission` makes a job of them, and `kind`
tells the engine what it must know of imports. The stages, in the order of the work: `plan` lands the files and cuts
them into ranges, `records` reads ranges as columns, `validate` judges the records, `load` brings them into the table,
`reconcile` puts right what batches could not know of each other, and `completion` ends the job. `work` is what a lane
does with one item: it reads, validates and loads, by the `context` that all batches share. `progress` says how far an
import is, and `counts` which way its records went.

`winding_up` leaves no record undecided when an import was cancelled or failed. `report` holds what people are shown,
and `afterwards` what they do with an import that is over. `files_first` reads the command line.
"""
