"""What people are shown of a job of processing: `report` counts its outcomes, `grid` has its rows, and `loading` writes
the grid to a file that can be imported into a table."""
