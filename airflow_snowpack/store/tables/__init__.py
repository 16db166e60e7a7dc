"""The tables of the store as the newest migration leaves them, one file for each room."""
