"""What the engine measures: `catalogue` declares each metric that is kept, `recording` gathers and writes them."""
