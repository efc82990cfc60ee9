"""Items in the database.

`leases` gives workers the right to work items, and `claims` knows which of a worker's claims are over. `settling`
writes the outcomes, and `rescue` takes items from workers that do not come back. `pages` lists items, `cursors` are
places in such a list, and `showing` shows one item.
"""
