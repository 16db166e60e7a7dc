"""The package's own maintenance actions, one file each."""
