"""Imports over HTTP: `requests` reads what is asked, `resumption` takes files in parts, `answers` says what came of
them."""
