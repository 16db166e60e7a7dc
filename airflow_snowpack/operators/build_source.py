"""The rows of a build, as the arguments of an operator name them, read with Spark or without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import determine_kwargs
from airflow.sdk import Context

from airflow_snowpack.builds.build_spec import BuildSource
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.write.rows_source import RowsSource
from airflow_snowpack.builds.write.spark_source import SparkSource
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.errors import UnreadableTable
from airflow_snowpack.interim.frames.data_files import is_changed_by_projection, rows_of
from airflow_snowpack.operators.arguments import read_object
from airflow_snowpack.operators.build_base import TakesBuildArguments
from airflow_snowpack.spark.statements import is_connect

if TYPE_CHECKING:
    from pyiceberg.table import DataScan
    from pyspark.sql import SparkSession


def source_of(operator: TakesBuildArguments, context: Context) -> BuildSource:
    """Return the rows that the arguments name; ``engine="spark"`` starts the session."""
    return (python_source if operator.engine == "python" else spark_source)(operator, context)


def spark_source(operator: TakesBuildArguments, context: Context) -> SparkSource:
    """Return a table as of its current snapshot, a query, or what a function returns from the session.

    :raises SparkUnavailable: this machine has no Spark.
    :raises SparkFailed: Spark refused the query.
    """
    hook = IcebergSparkHook(operator.spark_conn_id, operator.catalog_conn_id)
    session, catalog = hook.session(), hook.settings.catalog_name
    if operator.table is not None:
        return SparkSource.table(session, TableName.parse(operator.table, catalog=catalog))
    with _current_catalog(session, catalog):
        if operator.sql is not None:
            return SparkSource.sql(session, operator.sql)
        return SparkSource(_called(operator, context, session), _made_by(operator))


def python_source(operator: TakesBuildArguments, context: Context) -> RowsSource:
    """Return a table read by PyIceberg, or what a function returns.

    :raises TableNotFound, CatalogUnreachable: from the catalog.
    """
    if operator.table is None:
        return RowsSource(_called(operator, context), sources=_made_by(operator))
    hook = IcebergCatalogHook(operator.catalog_conn_id)
    name = hook.table_name(operator.table)
    table = hook.load_table(name)
    snapshot = table.current_snapshot()
    source: dict[str, Any] = {"table": str(name)} | ({"snapshot_id": snapshot.snapshot_id} if snapshot else {})
    scan = table.scan(snapshot_id=snapshot.snapshot_id if snapshot else None)
    return RowsSource(_rows_of(scan, all_at_once=operator.max_keys_per_shard is not None), sources=(source,))


def _rows_of(scan: DataScan, *, all_at_once: bool) -> Any:
    """Return the rows of a scan; to count keys first, all rows are read at once.

    :raises InvalidBuild: PyIceberg would change values, and only PyIceberg can read the files.
    """
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
    """Resolve names without a catalog in this one.

    A local session is restored afterwards, because the whole process shares it. One on Spark Connect is this task's own, and its
    server resolves the names of a query each time that the query is used.
    """
    before = session.catalog.currentCatalog()
    session.catalog.setCurrentCatalog(catalog)
    try:
        yield
    finally:
        if not is_connect(session):
            session.catalog.setCurrentCatalog(before)
