"""The last stage of an import: putting right what its batches, loaded in any order, could not know of each other.

The records that it is about were `set_aside`. `reconciling` chooses the way: `first_wins` for inserts and validations,
for which a `trial` may be made, and `last_wins` for upserts, which know what is `unchanged`. `late_rejects` gives the
verdicts on records that waited, by the `objections` of the table and by `own_references`; `unseen` completes rejects
whose records were not at hand, and `unreached` counts those that nobody read. `control` is what all of it asks of the
job.
"""
