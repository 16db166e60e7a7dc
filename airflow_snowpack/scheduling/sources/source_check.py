"""Check the sources of declared schedules by reading them now.

    for finding in check_sources(declared, catalog=load(), catalog_name="lake", missing_dags={"gone"}, now=now):
        print(finding)

Each table is read once, however many schedules listen to it, and only its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_snowpack.iceberg.catalog import load_table
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.sources.consumer import tables_of
from airflow_snowpack.scheduling.sources.source import blocking, sources_of, with_problems
from airflow_snowpack.scheduling.sources.source_problems import (
    Found,
    ProblemKind,
    SourceProblem,
    dag_source,
    found_in,
    found_with,
)
from airflow_snowpack.scheduling.triggers.trigger import table_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.signs_of_life import Role, is_alive, last_seen
from airflow_snowpack.store.tables.schedules import schedules

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that keeps a schedule from starting its DAG, or may.

    :param schedule: its name; ``None`` where all schedules are concerned.
    :param blocks: its trigger cannot be satisfied, or its DAG cannot be started, as things are.
    """

    schedule: str | None
    problem: str
    blocks: bool

    def __str__(self) -> str:
        if self.schedule is None:
            return f"{self.problem[:1].upper()}{self.problem[1:]}."
        return f"{self.schedule}: {self.problem}{'; it cannot run as things are' if self.blocks else ''}."


def check_sources(
    declared: Iterable[Schedule],
    *,
    catalog_name: str,
    load_catalog: Callable[[], Catalog],
    missing_dags: Collection[str],
    now: datetime,
) -> list[Finding]:
    """Return what is wrong with the sources of these schedules, in the order of their names.

    :param load_catalog: connects to the catalog; called when there are tables to read.
    :param missing_dags: DAGs that do not exist.
    :raises CatalogUnreachable: from ``load_catalog``. A single table that cannot be read is a finding.
    """
    wanted = sorted(declared, key=lambda one: one.name)
    problems = {dag_source(dag_id): SourceProblem(ProblemKind.MISSING, "", now, now) for dag_id in missing_dags}
    for name in _tables(wanted, catalog_name):
        if (found := _read(load_catalog, name)) is not None:
            problems[table_key(name)] = SourceProblem(found.kind, found.problem, now, now)
    findings: list[Finding] = []
    for one in wanted:
        blocked = with_problems(one.trigger, one.trigger.evaluate({}, now), blocking(one.trigger, problems, catalog_name))
        for source in sources_of(one.trigger, problems, {}, catalog_name):
            if source.problem is not None:
                findings.append(Finding(one.name, source.problem, blocked.problem is not None))
        if one.dag_id in missing_dags:
            findings.append(Finding(one.name, f"the DAG {one.dag_id}, which it starts, does not exist", True))
    return findings


def check_scheduler(store: Store) -> list[Finding]:
    """Return a finding when schedules are enabled and no scheduler is running."""
    enabled = sa.select(schedules.c.name).where(schedules.c.enabled).limit(1)
    is_wanted, seen_at = store.read(lambda conn: (conn.execute(enabled).first() is not None, last_seen(conn, Role.SCHEDULER)))
    if not is_wanted or is_alive(seen_at, store.clock()):
        return []
    return [
        Finding(None, "no scheduler is running; unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`", True)
    ]


def named_dags(declared: Iterable[Schedule]) -> set[str]:
    """Return the DAGs that schedules start or listen to."""
    found = set()
    for one in declared:
        found |= {one.dag_id, *(source.name for source in sources_of(one.trigger, {}, {}, "c") if source.kind == "dag")}
    return found


def _tables(declared: Sequence[Schedule], catalog_name: str) -> list[TableName]:
    return sorted({name for one in declared for name in tables_of(one.trigger, catalog_name)}, key=str)


def _read(load_catalog: Callable[[], Catalog], name: TableName) -> Found | None:
    catalog = load_catalog()
    try:
        return found_in(load_table(catalog, name))
    except Exception as error:  # noqa: BLE001  # a catalog or a file system of whatever kind; the other tables are checked all the same
        return found_with(error)
