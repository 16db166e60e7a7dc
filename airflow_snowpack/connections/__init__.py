"""What Airflow connections say about the store, the catalog and Spark, for processes with and without Airflow."""
