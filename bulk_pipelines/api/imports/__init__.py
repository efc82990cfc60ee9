"""Imports over HTTP: `requests` reads what is asked, `receiving` and `resumption` take files, `answers` says what came
of them."""
