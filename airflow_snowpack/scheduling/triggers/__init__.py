"""Triggers: their base and combinations, those that count events, and those of a schedule's clock."""
