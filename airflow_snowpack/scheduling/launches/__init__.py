"""Launches: reserving a run, starting its DAG run exactly once, and recording how it ended."""
