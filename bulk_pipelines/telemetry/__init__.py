"""What a process tells of its work as it goes on: `context` is what the work belongs to, `logs` writes lines, `events`
is what they say, `error_log` keeps errors that nobody expected, and `spans` are traces."""
