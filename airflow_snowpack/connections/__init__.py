"""What Airflow connections mean for the store, the catalog and Spark, for processes with and without Airflow."""
