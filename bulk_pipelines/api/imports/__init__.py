"""Imports over HTTP: `requests` reads what is asked, `tables` declares a table that nobody has declared, `submitting`
makes the job, `resumption` takes files in parts, `previewing` looks at a file of which nothing is kept, and `answers`
says what came of it."""
