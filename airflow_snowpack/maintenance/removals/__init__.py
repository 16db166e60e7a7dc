"""Removals: lists of files or snapshots that are planned, approved, and then deleted exactly."""
