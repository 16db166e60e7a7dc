"""The DAGs of Airflow that keep Snowpack itself running. Each is described on its page in Airflow, and in docs/dags.md."""

from airflow_snowpack.dags import collector, fleet, notifications, prune, scheduler, sweep, workers  # noqa: F401
