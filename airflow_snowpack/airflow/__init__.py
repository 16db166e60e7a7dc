"""What the domain needs to know of Airflow, without importing it."""
