"""Web services: what is declared of them, their limits, the calls, and the answers that are kept."""
