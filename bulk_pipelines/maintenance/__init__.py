"""What keeps the system clean and honest: the sweeper, the finalizer, retention. Each can run once, or by schedule."""
