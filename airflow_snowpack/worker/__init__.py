"""Workers: processes that run jobs from the queue, with Airflow's settings or with those of their environment."""
