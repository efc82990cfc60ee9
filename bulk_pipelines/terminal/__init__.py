"""What commands share at a terminal: `commanding` says who gives a command, `connecting` gives it the database,
`watching` follows the job that came of it, and `progress_bar` shows how far it is."""
