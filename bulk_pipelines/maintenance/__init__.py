"""What keeps the system clean and honest: the sweeper, the finalizer and retention. Each pass runs by schedule, or once
by a command."""
