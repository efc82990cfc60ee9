"""Jobs and their items over HTTP: `requests` reads what is asked for rows, `answers` says how far jobs and items are,
`lists` reads their pages."""
