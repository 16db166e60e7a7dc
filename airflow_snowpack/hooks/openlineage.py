"""Converts operations in the store to OpenLineage's datasets.

    lineage_of(task_instance, store_conn_id=None, catalog_conn_id=None)     # an OperatorLineage, or None without the provider

Tables are named by OpenLineage's convention for Iceberg: by location (``s3://bucket`` and the path in it, ``file`` and the path
on disk), with the catalog's name as a symlink. Events of Spark's integration and of these operators then share a dataset. A table
without a known location has only the catalog's name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.lineage.operation import DatasetAt, Operation, TableAt
from airflow_snowpack.lineage.operations import OperationLog

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

Touched = TableAt | DatasetAt
log = logging.getLogger(__name__)

# Spark and PyIceberg spell the same scheme differently.
SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "": "file"}
MAX_LOOK_UPS = 20
"""For how many tables the catalog is read to find their locations."""


def lineage_of(
    task_instance: Any,
    more: tuple[Sequence[Touched], Sequence[Touched]] = ((), ()),
    job_ids: Sequence[str] = (),
    *,
    store_conn_id: str | None = None,
    catalog_conn_id: str | None = None,
) -> OperatorLineage[Any, Any] | None:
    """Return what one try of a task read and wrote, and the plans and outcomes of the maintenance that it planned or ran.

    :param task_instance: from OpenLineage's listener.
    :param more: inputs and outputs in addition to those in the store.
    :param job_ids: maintenance jobs in addition to those that changed a table in this try.
    :raises SnowpackError: the store does not answer; OpenLineage logs the error and continues.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    from airflow_snowpack.hooks.openlineage_facets import MaintenanceFacets

    with SnowpackHook(store_conn_id) as hook:
        operations = _of_this_try(hook, task_instance)
        changed = [each.job_id for each in operations if each.job_id is not None]
        maintained = MaintenanceFacets.read(hook, list(dict.fromkeys([*job_ids, *changed])))
    # Of repeated reads the first state counts, of repeated writes the last.
    inputs = _each_once([*reversed(more[0]), *(table for each in reversed(operations) for table in reversed(each.inputs))])
    outputs = _each_once([*more[1], *(table for each in operations for table in each.outputs)])
    rows = {table.name: each.rows for each in operations for table in each.outputs if each.rows is not None}
    names = DatasetNames(catalog_conn_id)
    return OperatorLineage(
        inputs=[names.input(table, maintained.before(table.name)) for table in inputs],
        outputs=[names.output(table, rows.get(table.name), maintained.after(table.name)) for table in outputs],
        run_facets=maintained.of_run(),
    )


class DatasetNames:
    """Creates OpenLineage datasets from tables and builds.

    :param catalog_conn_id: the catalog with the locations that the store lacks.
    """

    def __init__(self, catalog_conn_id: str | None = None) -> None:
        self._hook = IcebergCatalogHook(catalog_conn_id)
        self._looked_up = 0

    def input(self, table: Touched, seen: Mapping[str, Any]) -> Any:
        """Return the dataset of a table that was read, with the facets of what this run has observed of it."""
        from airflow.providers.common.compat.openlineage.facet import InputDataset

        namespace, name = self.of(table)
        return InputDataset(namespace=namespace, name=name, facets=self._facets(table), inputFacets=dict(seen))

    def output(self, table: Touched, rows: int | None, seen: Mapping[str, Any]) -> Any:
        """Return the dataset of a table that was written.

        :param rows: the number of rows, if it is known.
        :param seen: as for an input.
        """
        from airflow.providers.common.compat.openlineage.facet import OutputDataset, OutputStatisticsOutputDatasetFacet

        namespace, name = self.of(table)
        counted: dict[str, Any] = {} if rows is None else {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows)}
        return OutputDataset(namespace=namespace, name=name, facets=self._facets(table), outputFacets=counted | dict(seen))

    def of(self, table: Touched) -> tuple[str, str]:
        location = self._location(table)
        if location is not None:
            return named_by_location(location)
        catalog, _, name = table.name.partition(".")
        return f"iceberg://{catalog}", name

    def _location(self, table: Touched) -> str | None:
        if not isinstance(table, TableAt):
            return table.name
        return table.location or self._ask_catalog(table.table)

    def _ask_catalog(self, table: str) -> str | None:
        catalog, _, name = table.partition(".")
        if catalog != self._hook.settings.catalog_name or self._looked_up >= MAX_LOOK_UPS:
            return None
        self._looked_up += 1
        try:
            return str(self._hook.load_table(self._hook.table_name(name)).location())
        except SnowpackError as problem:
            log.info("The location of %s for OpenLineage is unknown: %s", table, problem)
            return None

    def _facets(self, table: Touched) -> dict[str, Any]:
        from airflow.providers.common.compat.openlineage.facet import Identifier, SymlinksDatasetFacet
        from openlineage.client.facet_v2 import dataset_version_dataset

        version = table.snapshot_id if isinstance(table, TableAt) else table.run_id
        facets: dict[str, Any] = {}
        if version is not None:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
        if isinstance(table, TableAt):
            catalog, _, name = table.table.partition(".")
            symlink = Identifier(namespace=f"iceberg://{catalog}", name=name, type="TABLE")
            facets["symlinks"] = SymlinksDatasetFacet(identifiers=[symlink])
        return facets


def named_by_location(location: str) -> tuple[str, str]:
    """Return namespace and name of a location, by OpenLineage's convention for object stores and file systems.

    >>> named_by_location("s3a://lake/warehouse/shop/orders/")
    ('s3://lake', 'warehouse/shop/orders')
    >>> named_by_location("file:///data/warehouse/shop/orders")
    ('file', '/data/warehouse/shop/orders')
    """
    parts = urlsplit(location)
    scheme = SCHEMES.get(parts.scheme, parts.scheme)
    path = unquote(parts.path).rstrip("/")
    if scheme == "file":
        return "file", path
    if scheme == "hdfs":
        return f"hdfs://{parts.netloc}", path
    return f"{scheme}://{parts.netloc}", path.lstrip("/")


def _of_this_try(hook: SnowpackHook, task_instance: Any) -> list[Operation]:
    ti = task_instance
    map_index = -1 if ti.map_index is None else ti.map_index
    found = OperationLog(hook.store()).of_task(ti.dag_id, ti.run_id, ti.task_id, map_index)
    since = getattr(ti, "start_date", None)
    return [each for each in found if _is_of_try(each, ti.try_number, since)]


def _is_of_try(operation: Operation, try_number: int, since: Any) -> bool:
    """Compare the try number; if only the task is known, the time."""
    known = operation.task.try_number if operation.task else None
    return known == try_number if known is not None else since is None or operation.at >= since


def _each_once(tables: Iterable[Touched]) -> list[Touched]:
    """Keep the last table with each name."""
    return list({table.name: table for table in tables}.values())
