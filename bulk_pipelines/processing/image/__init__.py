"""The recipe that reads pictures: size, format, colours, a hash for near-doubles, thumbnails without metadata.

`options` are what it declares. `looking` goes through the pictures of a claim: `fetching` gets their bytes, and
`children` has each decoded in a `child` process, because the pictures are from strangers. `licences` tells who made the
pictures of Wikimedia Commons, and `doubles` finds near-doubles before the job ends.
"""
