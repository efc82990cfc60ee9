"""What people do with an import that is over. `outcomes` downloads its records, `replays` runs its rejects again, as
files that `replaying` writes or as `mending` has changed them, and `undo` takes its rows back. `commands` offers that
on the command line."""
