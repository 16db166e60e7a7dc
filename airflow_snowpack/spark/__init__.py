"""Where Spark runs: a local session with Iceberg in it, a Spark Connect server, and how to stop what runs there.

Importing this room is cheap: pyspark and the JVM come with the first session.
"""

from airflow_snowpack.spark.causes import JavaCause, java_causes
from airflow_snowpack.spark.config import SparkConfig
from airflow_snowpack.spark.errors import CatalogNotConfigured, SparkFailed, SparkInterrupted, SparkUnavailable
from airflow_snowpack.spark.interrupt import SparkWork
from airflow_snowpack.spark.session import check_local, connect_session, local_session

__all__ = [
    "CatalogNotConfigured",
    "JavaCause",
    "SparkConfig",
    "SparkFailed",
    "SparkInterrupted",
    "SparkUnavailable",
    "SparkWork",
    "check_local",
    "connect_session",
    "java_causes",
    "local_session",
]
