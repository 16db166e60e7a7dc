"""What a policy would have done to a table, simulated on its real commits."""
