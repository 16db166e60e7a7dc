"""Events: the log, what writes to it, and how its events reach the pending runs of schedules."""
