"""What Airflow's plugin manager loads."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class SnowpackPlugin(AirflowPlugin):
    """The plugin; every Airflow process imports it, so it stays light."""

    name = "snowpack"
