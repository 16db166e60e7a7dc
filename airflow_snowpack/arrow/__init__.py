"""Arrow's types and values without silent changes, for builds, interim tables and functions on rows."""
