"""Exports: the rows of a resource as a file or a stream of bytes.

The stages, in the order of the work: `read` takes the rows from one snapshot, `formats` turns them into the bytes of a
file, `publish` puts the file where it belongs, whole or not at all. `streaming` joins the first two; `work` is what a
lane does with the one item of an export; `completion` ends the job. `request` is what was asked for; `kind` tells the
engine what it must know of exports. `report` holds what people are shown.
"""
