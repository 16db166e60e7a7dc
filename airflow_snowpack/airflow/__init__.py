"""What the domain needs from Airflow, without importing it."""
