"""Exports over HTTP: `requests` reads what is asked, `answers` says what came of it, and `downloads` gives the file."""
