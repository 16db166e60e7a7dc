"""The store, the catalog and Spark as Airflow connections describe them, for processes with and without Airflow."""
