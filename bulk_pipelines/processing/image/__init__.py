"""The recipe that reads pictures: size, format, colours, a hash for near-doubles, thumbnails without metadata.

`options` are what it declares. `looking` goes through the pictures of a claim: `fetching` gets their bytes, and
`children` has each decoded in a `child` process, because the pictures are from strangers. `doubles` finds near-doubles
when all rows are known, and `licences` knows who made the pictures of Wikimedia Commons.
"""
