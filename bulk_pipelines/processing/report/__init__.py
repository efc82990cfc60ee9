"""What people are shown of a job of processing: `report` counts its outcomes, `grid` has its rows, and `loading` lets
the grid be imported into a table."""
