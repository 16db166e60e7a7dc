"""The maintenance actions of this package, one file each."""
