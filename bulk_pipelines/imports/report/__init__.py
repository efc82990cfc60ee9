"""What people and programs are shown of an import.

`preview` looks at a file before it is imported, or at one of its `beginnings`; it says how the file was `recognised`
and which `proposals` would help, and `printing` prints that. `watching` shows an import that is at work, `report` one
that is over, with a `picture` of its batches. `answer` is for other programs, `shown` for those that give a command
`--json`.
"""
