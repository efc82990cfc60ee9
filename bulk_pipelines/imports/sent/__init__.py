"""Files that are sent with a request. `uploads` keeps what has arrived, `receiving` lands a file in one piece,
`appending` keeps the parts of one that comes in several requests, `planning` finds them for the import, and `clearing`
removes what nobody goes on with. `digests` says what a digest in a header means."""
