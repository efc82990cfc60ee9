"""The files of a distribution. `data` has the query that makes them, in which `placeholders` finds the parameters, and
`contents` reads the files of one claim. `target` is where they go, `file_urls` where people can open them, and the
`registry` knows those that there are, for `reuse`."""
