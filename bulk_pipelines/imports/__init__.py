"""Imports: files of records, checked by columns and loaded by COPY.

The stages, in the order of the work: `plan` lands the files and cuts them into ranges, `records` reads ranges as
columns, `validate` judges the records, `load` brings them into the table, `reconcile` puts right what batches could not
know of each other, and `completion` ends the job. `work` is what a lane does with one item: it reads, validates and
loads. `request` holds what was asked for; `kind` tells the engine what it must know of imports. `report` holds
what people are shown.
"""
