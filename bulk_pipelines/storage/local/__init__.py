"""A folder of this machine as a storage. `storage` keeps the promises, and `beneath` reaches files below the folder
without following links. `flushing` brings a file to the disk while it is written. `stats` and `errors` read what the
system answers."""
