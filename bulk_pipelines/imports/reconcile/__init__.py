"""The last stage of an import: putting right what its batches, loaded in any order, could not know of each other.

`reconciling` chooses the way: `first_wins` for inserts and validations, `last_wins` for upserts. `late_rejects` gives
the verdicts on records that waited, by the `objections` of the table; `control` is what all of it asks of the job.
"""
