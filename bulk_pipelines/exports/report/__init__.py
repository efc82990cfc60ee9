"""What people and programs are shown of an export.

`watching` shows an export that is at work, `report` one that is over, and `finished` opens its file. `answer` is for
other programs, `shown` for those that give a command `--json`.
"""
