"""How Dagster works a job of the engine: plan, lanes, finish. The same three for every kind."""
