"""The tables of the store in their newest version, one file per room."""
