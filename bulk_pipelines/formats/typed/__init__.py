"""Arrow's values, as they would stand in a CSV file.

`arrow_text` gives them: numbers and times by `arrow_values`, lists and structures by `arrow_nested`. Before that,
dictionaries and the like become plain values by `arrow_plain`, so many rows at a time as `arrow_sizes` finds;
`arrow_messages` tells how much a batch unpacks to.
"""
