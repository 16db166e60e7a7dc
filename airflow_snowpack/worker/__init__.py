"""Worker processes that run jobs from the queue, with or without Airflow."""
