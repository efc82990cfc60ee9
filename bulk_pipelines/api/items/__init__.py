"""Jobs and their items over HTTP: `requests` reads what is asked for rows, `reprocessing` which items are to be tried
again, `answers` says how far jobs and items are, `lists` reads their pages."""
