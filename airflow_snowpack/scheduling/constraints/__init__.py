"""Run constraints, one module each; ``constraint.py`` has what they share."""
