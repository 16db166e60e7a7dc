"""What ``make demo`` runs: a real table, worn by a year of daily loads, made healthy by a DAG, measured before and after."""
