"""Pending runs: what waits for its trigger or its constraints, and how it is decided when each may start."""
