"""Exports: the rows of a resource as a file or a stream of bytes.

`request` is what was asked for: `filters` say which rows of a resource, or `queries` take a query in its place.
`submission` makes a job of it; `kind` tells the engine what it must know of exports. The stages, in the order of the
work: `read` takes the rows from one snapshot, `formats` turns them into the bytes of a file, `publish` puts the file
where it belongs, whole or not at all. `streaming` joins the first two, and `printing` prints what they give; `work` is
what a lane does with the one item of an export, and `progress` how far it is; `completion` ends the job. `report` holds
what people are shown.
"""
