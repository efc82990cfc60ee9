"""Web services that recipes ask: `provider` has their declarations with their limits, `asking` and `client` call them
with their `headers`, `answers` keeps what they say, and `requests_made` counts the calls."""
