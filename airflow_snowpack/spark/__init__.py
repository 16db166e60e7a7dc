"""Where Spark runs: a local session with Iceberg in it, a Spark Connect server, and how to stop what runs there.

Importing this room is cheap: pyspark and the JVM come with the first session.
"""

from airflow_snowpack.spark.causes import java_causes, translate
from airflow_snowpack.spark.config import SparkConfig
from airflow_snowpack.spark.connect import ConnectServer, connect_session, end_session, leave_session, session_id_of, turns
from airflow_snowpack.spark.errors import (
    CatalogNotConfigured,
    JavaCause,
    OrphanStillRunning,
    SparkDied,
    SparkFailed,
    SparkInterrupted,
    SparkUnavailable,
)
from airflow_snowpack.spark.interrupt import SparkWork, spark_errors
from airflow_snowpack.spark.session import check_local, local_session

__all__ = [
    "CatalogNotConfigured",
    "ConnectServer",
    "JavaCause",
    "OrphanStillRunning",
    "SparkConfig",
    "SparkDied",
    "SparkFailed",
    "SparkInterrupted",
    "SparkUnavailable",
    "SparkWork",
    "check_local",
    "connect_session",
    "end_session",
    "java_causes",
    "leave_session",
    "local_session",
    "session_id_of",
    "spark_errors",
    "translate",
    "turns",
]
