"""Removals: lists of files and snapshots that are planned, approved, and then deleted exactly."""
