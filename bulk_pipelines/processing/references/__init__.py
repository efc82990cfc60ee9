"""References are what rows are matched with: tables of the database, and files that are loaded into it.

`declaration` says what a recipe names; `rows` reads entries from the database; `files` loads a file that is new or has
changed; `held` keeps the indexes of this process.
"""
