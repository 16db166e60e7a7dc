"""Arrow's types and values without silent changes: what builds, interim tables and functions on rows have in common."""
