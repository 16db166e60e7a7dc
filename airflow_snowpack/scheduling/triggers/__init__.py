"""Triggers: what they share and how they combine, those that count events, and those of a schedule's own clock."""
