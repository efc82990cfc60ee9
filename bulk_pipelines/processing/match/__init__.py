"""The recipe that matches rows with a reference in the database, or with a file that is loaded there."""
