"""One DAG for each table, to see, pause and trigger the maintenance of each table separately.

    from airflow_snowpack.per_table_dags import per_table_dags

    per_table_dags("policies.yaml", schedule="@hourly")

Where one DAG for all tables is enough, a fleet costs less: a DAG run per table keeps Airflow's scheduler busy although most
tables need nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, get_parsing_context

from airflow_snowpack.iceberg.errors import InvalidTableName
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.operators.maintain import MaintainTableOperator
from airflow_snowpack.setting import catalog_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_snowpack.maintenance.policies import Policies

TAGS = ("snowpack", "maintenance")
CONFIGURED = ("max_active_tasks", "max_consecutive_failed_dag_runs", "disable_bundle_versioning")
"""The arguments of a DAG whose defaults are in Airflow's configuration."""


def per_table_dags(
    path: str | Path = "policies.yaml",
    *,
    schedule: Any = "@daily",
    prefix: str = "maintain.",
    dag_args: Mapping[str, Any] | None = None,
    **operator_args: Any,
) -> list[DAG]:
    """Create a DAG for each table that the policies maintain; its one task runs what the plan of the table needs.

    The tables are those that a rule names and those of the stored inventory that match a rule's pattern, unless the rules skip or
    disable them. A rule for every table counts, ``default`` does not. Parsing reads neither the catalog nor a table, and usually
    no database: the names are cached for ``[snowpack] table_cache_refresh``. A process that runs a task creates only its DAG.

    :param path: the policies file; a relative path starts from the folder of the DAG file.
    :param schedule: of each DAG, as Airflow takes it, or a function that returns one for a ``database.table``.
    :param prefix: the id of a DAG is the prefix and ``database.table``.
    :param dag_args: more arguments of each :class:`~airflow.sdk.DAG`, such as ``default_args`` and ``tags``.
    :param operator_args: more arguments of each :class:`~airflow_snowpack.operators.MaintainTableOperator`.
    :returns: the DAGs, which Airflow also finds without a variable.
    :raises PoliciesNotFound, InvalidPolicies: the file cannot be read, or has problems.
    :raises SnowpackError: a rule has a pattern, and the stored inventory was never read and cannot be read now.
    """
    file = Path(sys._getframe(1).f_code.co_filename).parent / path
    catalog = catalog_name()
    running = get_parsing_context().dag_id
    if running is not None:
        names = _own_table(running, prefix, catalog)
    else:
        conn_ids = (operator_args.get("store_conn_id"), operator_args.get("catalog_conn_id"))
        names = _maintained(file, conn_ids, catalog)
    arguments = {"catchup": False, "max_active_runs": 1, "tags": TAGS, **(dag_args or {})}
    return list(_dags(names, prefix, schedule, arguments, {"policies": file, **operator_args}))


def _own_table(dag_id: str, prefix: str, catalog: str) -> list[str]:
    """Return the table of the DAG whose task this process runs; empty if another call creates that DAG."""
    if not dag_id.startswith(prefix):
        return []
    try:
        return [TableName.parse(dag_id.removeprefix(prefix), catalog=catalog).dotted]
    except InvalidTableName:
        return []


def _maintained(file: Path, conn_ids: tuple[str | None, str | None], catalog: str) -> list[str]:
    from airflow_snowpack.hooks.table_names import stored_table_names
    from airflow_snowpack.maintenance.policies import Policies

    policies = Policies.load(file, only_tables=True)
    patterns = [pattern for rule in policies.rules if not rule.is_default for pattern in rule.patterns]
    named = {pattern.text for pattern in patterns if pattern.is_name}
    if len(named) < len(patterns):
        named |= {*stored_table_names(*conn_ids)}
    return sorted(_matched(policies, named, catalog))


def _matched(policies: Policies, names: set[str], catalog: str) -> Iterator[str]:
    for name in names:
        table = TableName.parse(name, catalog=catalog)
        if policies.names(table) and policies.maintains(table):
            yield name


def _dags(
    tables: list[str], prefix: str, schedule: Any, arguments: dict[str, Any], operator_args: Mapping[str, Any]
) -> Iterator[DAG]:
    """Yield the DAGs. Airflow reads its configuration and the schedule for each new DAG, so all take them from the first one."""
    timetables: dict[str, Any] = {}
    for table in tables:
        given = schedule(table) if callable(schedule) else schedule  # no schedule of Airflow is callable
        known = timetables.get(given, given) if isinstance(given, str) else given
        with DAG(f"{prefix}{table}", schedule=known, **arguments) as dag:
            MaintainTableOperator(table=table, **{"task_id": "maintain", "actions": "auto", **operator_args})
        if isinstance(given, str):
            timetables[given] = dag.timetable
        arguments |= {name: getattr(dag, name) for name in CONFIGURED}
        yield dag
