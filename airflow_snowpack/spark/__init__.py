"""Where Spark runs: a local session with Iceberg in it, a Spark Connect or Thrift server, and how to stop what runs there.

Importing this room is cheap: pyspark and the JVM come with the first session.
"""

from airflow_snowpack.spark.config import SparkConfig as SparkConfig
from airflow_snowpack.spark.connect import (
    ConnectServer as ConnectServer,
    connect_session as connect_session,
    end_session as end_session,
    leave_session as leave_session,
    session_id_of as session_id_of,
)
from airflow_snowpack.spark.errors import (
    CatalogNotConfigured as CatalogNotConfigured,
    OrphanStillRunning as OrphanStillRunning,
    ServerLost as ServerLost,
    SparkDied as SparkDied,
    SparkFailed as SparkFailed,
    SparkInterrupted as SparkInterrupted,
    SparkUnavailable as SparkUnavailable,
    SubstitutionRequested as SubstitutionRequested,
)
from airflow_snowpack.spark.session import (
    check_local as check_local,
    local_session as local_session,
    without_substitution as without_substitution,
)
from airflow_snowpack.spark.statements import (
    SessionStatements as SessionStatements,
    SparkServer as SparkServer,
    Statements as Statements,
)
from airflow_snowpack.spark.thrift import (
    ThriftServer as ThriftServer,
    end_attempts as end_attempts,
)
from airflow_snowpack.spark.work import (
    SparkWork as SparkWork,
    spark_errors as spark_errors,
    translate as translate,
)
