"""What the engine measures: `catalogue` declares each metric that is kept, `recording` gathers and writes them, and
`ends` adds to them when a job ends."""
