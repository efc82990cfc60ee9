"""Distribution: a job has many inputs, and each gets one CSV file. The file is produced from a query, or reused when it
was produced before.

`pasted` reads inputs as people paste them. `request` checks the inputs, `submission` makes them the items of a job,
`work` puts the file of each where it belongs, by what `files` knows, `completion` ends the job, `report` and `answer`
say what came of it. `kind` tells the engine what it must know of distributions. `sample` makes data to try it with.
"""
