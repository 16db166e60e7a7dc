"""The REST API and the pages, mounted in Airflow or served alone."""
