"""The rows of a build, as an operator's arguments say: from Spark, or without it.

source = spark_source(operator, context)        # starts the session
source = python_source(operator, context)       # no JVM
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import determine_kwargs

from airflow_snowpack.operators.arguments import read_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context
    from pyiceberg.table import DataScan
    from pyspark.sql import SparkSession

    from airflow_snowpack.builds.write.rows_source import RowsSource
    from airflow_snowpack.builds.write.spark_source import SparkSource
    from airflow_snowpack.operators.build_arguments import TakesBuildArguments


def spark_source(operator: TakesBuildArguments, context: Context) -> SparkSource:
    """A table as of its present snapshot, a query, or what a function makes of the session.

    :raises SparkUnavailable: this machine has no Spark.
    :raises SparkFailed: Spark refused the query.
    """
    from airflow_snowpack.builds.write.spark_source import SparkSource
    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
    from airflow_snowpack.iceberg import TableName

    hook = IcebergSparkHook(operator.spark_conn_id, operator.catalog_conn_id)
    session, catalog = hook.session(), hook.settings.catalog_name
    if operator.table is not None:
        return SparkSource.table(session, TableName.parse(operator.table, catalog=catalog))
    with _current_catalog(session, catalog):
        if operator.sql is not None:
            return SparkSource.sql(session, operator.sql)
        return SparkSource(_called(operator, context, session), _made_by(operator))


def python_source(operator: TakesBuildArguments, context: Context) -> RowsSource:
    """A table read by PyIceberg, or what a function returns.

    :raises TableNotFound, CatalogUnreachable: from the catalog.
    """
    from airflow_snowpack.builds.write.rows_source import RowsSource
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

    if operator.table is None:
        return RowsSource(_called(operator, context), sources=_made_by(operator))
    hook = IcebergCatalogHook(operator.catalog_conn_id)
    name = hook.table_name(operator.table)
    table = hook.load_table(name)
    snapshot = table.current_snapshot()
    told: dict[str, Any] = {"table": str(name)} | ({"snapshot_id": snapshot.snapshot_id} if snapshot else {})
    scan = table.scan(snapshot_id=snapshot.snapshot_id if snapshot else None)
    return RowsSource(_rows_of(scan, all_at_once=operator.max_keys_per_shard is not None), sources=(told,))


def _rows_of(scan: DataScan, *, all_at_once: bool) -> Any:
    """The rows of a scan; keys can only be counted first where all of them are held.

    :raises InvalidBuild: PyIceberg would change some, and they cannot be read past it.
    """
    from airflow_snowpack.builds.errors import InvalidBuild
    from airflow_snowpack.interim.errors import UnreadableTable
    from airflow_snowpack.interim.frames.data_files import is_changed_by_projection, rows_of

    if not is_changed_by_projection(scan.projection()):
        return scan.to_arrow() if all_at_once else scan.to_arrow_batch_reader()
    try:
        return rows_of(scan)
    except UnreadableTable as problem:
        raise InvalidBuild("engine", "python", f"{problem.problem}; build it with engine='spark'") from problem


def _called(operator: TakesBuildArguments, context: Context, *session: SparkSession) -> Any:
    assert operator.python_callable is not None
    known = {**context, **read_object("op_kwargs", operator.op_kwargs)}
    return operator.python_callable(*session, **determine_kwargs(operator.python_callable, session, known))


def _made_by(operator: TakesBuildArguments) -> tuple[dict[str, Any], ...]:
    made = operator.python_callable
    return ({"python_callable": f"{made.__module__}.{made.__qualname__}"},) if made is not None else ()


@contextmanager
def _current_catalog(session: SparkSession, catalog: str) -> Iterator[None]:
    """Let names without a catalog be names of this one; the session is the whole process's, so that it gets back what it had."""
    before = session.catalog.currentCatalog()
    session.catalog.setCurrentCatalog(catalog)
    try:
        yield
    finally:
        session.catalog.setCurrentCatalog(before)
