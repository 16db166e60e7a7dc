"""Iceberg tables and published builds as Airflow assets, with events for arriving data, maintenance and publications.

    from airflow_snowpack.assets import IcebergTableWatcher, build_asset, iceberg_asset, maintained_tables

    with DAG("report", schedule=iceberg_asset("demo.flights")): ...        # after this table was changed or maintained
    with DAG("load", schedule=iceberg_asset("demo.flights", watched=True)): ...    # after data arrived from any writer
    with DAG("audit", schedule=maintained_tables()): ...                   # after any table was maintained
    with DAG("warm_up", schedule=build_asset("flights_by_tail")): ...      # after another build became the current one

A dry run emits no event, and neither does a build that is older than the current one. An event's ``extra`` has the job and the
table's numbers before and after; for a build, the run, the publication and the rows. A DAG that is scheduled on what it maintains
or builds emits no event on it: it would start itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from airflow_snowpack import setting
from airflow_snowpack.airflow_versions import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import DAG, BaseOperator, Context

    from airflow_snowpack.iceberg.names import TableName

MAINTAINED_TABLES = "snowpack_maintained_tables"
ARRIVALS = "arrivals"
PUBLISHED_BUILDS = "snowpack_published_builds"


class IcebergTableWatcher(AssetWatcher):
    """Emits an event for each snapshot that adds data to a table, from any writer; never for rewrites and deletes.

    :param table: ``database.table``.
    :param name: the name of the watcher, under which its position is stored. A new watcher begins at the current snapshot.
    :param poll: the time between two reads of the table's metadata.
    :raises NeedsNewerAirflow: before Airflow 3.3, a watcher could lose arrivals.
    """

    def __init__(
        self,
        table: str,
        *,
        name: str | None = None,
        poll: timedelta = timedelta(seconds=10),
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
    ) -> None:
        from airflow_snowpack.triggers.table_watcher import TableWatcherTrigger

        require("IcebergTableWatcher", (3, 3), "Start the DAG by a Snowpack schedule with a table trigger instead.")
        name = name or f"snowpack {table}" + (f" in {catalog_conn_id}" if _is_other(catalog_conn_id) else "")
        trigger = TableWatcherTrigger(table, name, poll.total_seconds(), store_conn_id, catalog_conn_id)
        super().__init__(name=name, trigger=trigger)


def iceberg_asset(table: str, *, catalog: str | None = None, catalog_conn_id: str | None = None, watched: bool = False) -> Asset:
    """Return the asset ``iceberg://catalog/database/table``.

    :param table: ``database.table``.
    :param catalog: the catalog's name; ``None`` for the installation's.
    :param catalog_conn_id: the catalog's Airflow connection, which is not read; ``None`` for the installation's. A table of
        another catalog is a separate asset, ``iceberg://catalog/database/table?catalog_conn_id=…``.
    :param watched: return the asset of the table's arrivals, ``iceberg://catalog/database/table?events=arrivals``, on which only
        an :class:`IcebergTableWatcher` emits events. Maintenance starts no DAG that waits for data, and a task's writes count
        once.
    :raises InvalidTableName: the name of the table is not valid.
    """
    from airflow_snowpack.iceberg.names import TableName

    name = TableName.parse(table, catalog=catalog or setting.catalog_name())
    if not watched:
        return _asset(name, catalog_conn_id)
    watcher = IcebergTableWatcher(name.dotted, catalog_conn_id=catalog_conn_id)
    return Asset(uri=_uri(name, catalog_conn_id, events=ARRIVALS), group="iceberg", watchers=[watcher])


def maintained_tables() -> AssetAlias:
    """Return the alias for tables whose task learns their names only when it runs."""
    return AssetAlias(name=MAINTAINED_TABLES)


def maintenance_outlet(table: str, *, dry_run: bool | str, catalog_conn_id: str | None = None) -> Asset | AssetAlias | None:
    """Return the outlet of a task that maintains this table: its asset if the name is known at parse time, otherwise the alias.

    Airflow emits an event on every declared asset of a task that succeeds, so a task that may be a dry run must not declare one.
    """
    if dry_run is True:
        return None
    if is_template(table) or is_template(dry_run) or (catalog_conn_id is not None and is_template(catalog_conn_id)):
        return maintained_tables()
    return iceberg_asset(table, catalog_conn_id=catalog_conn_id)


def record_maintenance(
    context: Context,
    outlet: Asset | AssetAlias,
    table: TableName,
    extra: Mapping[str, Any],
    *,
    catalog_conn_id: str | None = None,
) -> None:
    """Emit the event of a maintained table, with its numbers."""
    _record(context, outlet, _asset(table, catalog_conn_id), extra)


def _record(context: Context, outlet: Asset | AssetAlias, asset: Asset, extra: Mapping[str, Any]) -> None:
    events = context["outlet_events"]
    if isinstance(outlet, AssetAlias):
        if not is_started_by(context["dag"], asset):
            events[outlet].add(asset, extra=dict(extra))
    else:
        events[outlet].extra.update(extra)


def build_asset(dataset: str) -> Asset:
    """Return the asset ``snowpack://builds/dataset``; raise :class:`InvalidBuild` if the name of the dataset is not valid."""
    from airflow_snowpack.builds.layout import check_dataset

    return Asset(uri=f"snowpack://builds/{check_dataset(dataset)}", group="snowpack")


def published_builds() -> AssetAlias:
    """Return the alias for datasets whose task learns their names only when it runs."""
    return AssetAlias(name=PUBLISHED_BUILDS)


def publication_outlet(dataset: object) -> Asset | AssetAlias:
    return build_asset(dataset) if isinstance(dataset, str) and not is_template(dataset) else published_builds()


def record_publication(context: Context, outlet: Asset | AssetAlias, dataset: str, extra: Mapping[str, Any]) -> None:
    """Emit the event of a dataset whose current build has changed."""
    _record(context, outlet, build_asset(dataset), extra)


def withhold_event(context: Context, outlet: Asset | AssetAlias) -> None:
    """Emit no event on a declared asset. Airflow reads the outlets after the task has succeeded, from the operator that ran."""
    task = context["ti"].task
    task.outlets = [each for each in task.outlets if each != outlet]


def declare_outlet(operator: BaseOperator, outlet: Asset | AssetAlias | None, alias: AssetAlias) -> Asset | AssetAlias | None:
    """Declare the asset on which an operator emits events.

    :param alias: used instead where the DAG's author declared it: on a mapped task, which Airflow creates only when it runs.
    :returns: ``None`` for no events: an event on the asset would start the operator's own DAG again.
    """
    outlet = alias if alias in operator.outlets else outlet
    if outlet is None or outlet in operator.outlets:
        return outlet
    if operator.has_dag() and is_started_by(operator.dag, outlet):  # type: ignore[no-untyped-call]  # Airflow's is untyped
        return None
    operator.outlets.append(outlet)
    return outlet


def is_started_by(dag: DAG, outlet: Asset | AssetAlias) -> bool:
    """Return whether an event on this asset starts the DAG, whose own tasks must then emit none: it would run for ever."""
    return _address(outlet) in {_address(leaf) for leaf in condition_leaves(getattr(dag.timetable, "asset_condition", None))}


def condition_leaves(condition: Any) -> Iterator[Any]:
    """Yield the assets and aliases of an asset expression such as ``(a & b) | c``."""
    if not hasattr(condition, "objects"):
        yield condition
        return
    for part in condition.objects:
        yield from condition_leaves(part)


def _address(asset: Any) -> str | None:
    """Return what identifies an asset, regardless of its group and extra."""
    return getattr(asset, "uri", None) or getattr(asset, "name", None)


def is_template(value: object) -> bool:
    """Return whether a value is known only after Airflow has rendered it."""
    return not isinstance(value, (bool, str)) or (isinstance(value, str) and ("{{" in value or "{%" in value))


def _asset(name: TableName, catalog_conn_id: str | None) -> Asset:
    return Asset(uri=_uri(name, catalog_conn_id), group="iceberg")


def _uri(name: TableName, catalog_conn_id: str | None, **query: str) -> str:
    """Return the address of a table. It names the connection of another catalog, since a DAG file reads no connections."""
    which = {"catalog_conn_id": catalog_conn_id} if catalog_conn_id and _is_other(catalog_conn_id) else {}
    query = {**which, **query}
    return f"{name.asset_uri}?{urlencode(query)}" if query else name.asset_uri


def _is_other(catalog_conn_id: str | None) -> bool:
    return bool(catalog_conn_id) and catalog_conn_id != setting.catalog_conn_id()
