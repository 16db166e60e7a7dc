"""Pending runs, which wait for their trigger or their constraints, and the decision when each may start."""
