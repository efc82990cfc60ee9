"""What people decide about rows of which a recipe is not sure.

`keys` tells rows apart by what they say; `truth` keeps what was decided, and makes it count; `deciding` is how a
reviewer decides; `uncertain` lists the rows that wait for one; `thresholds` proposes what recipes may ask for.
"""
