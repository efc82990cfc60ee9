"""A folder of this machine as a storage. `storage` keeps the promises, and `beneath` reaches files below the folder
without following links. `stats` and `errors` read what the system answers."""
