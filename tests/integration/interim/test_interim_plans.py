"""With ten thousand tables on record, no statement of a task or of the collector walks over all of anything."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from interim_lake import DAG, InterimLake, ReportedRuns, holder
from query_plans import scans, sent_by

from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.registry import Output
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.tables.interim import interim_tables

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

MANY, RUNS, DUE = 10_000, 2_000, 8
TABLES = ["interim_tables", "interim_pins", "interim_refs", "interim_names", "interim_runs", "interim_slots"]
LATER = timedelta(hours=2)

EACH_RUN = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS})"
EACH_TABLE = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
OF_ITS_RUN = f"'many' || (i % {RUNS})"
FILL = [
    f"""INSERT INTO interim_runs (run_key, dag_id, run_id, check_at, looks, touches)
        {EACH_RUN} SELECT 'many' || i, 'flights', 'r' || i, :late, 1, 1 FROM n""",
    f"""INSERT INTO interim_tables (table_id, catalog, database_name, table_name, run_key, dag_id, run_id, task_id, map_index,
                                    output, try_number, state, created_at, ready_at, preservation, visible_at, attempt_count)
        {EACH_TABLE} SELECT 'm' || i, 'lake', 'snowpack_interim', 't' || i, {OF_ITS_RUN}, 'flights', 'r' || (i % {RUNS}),
                            'task' || (i % 7), -1, 'return_value', 1, 'ready', :now, :now, 'NONE', :now, 0 FROM n""",
    f"""INSERT INTO interim_slots (run_key, task_id, map_index, output, try_number, table_id)
        {EACH_TABLE} SELECT {OF_ITS_RUN}, 'task' || i, -1, 'return_value', 1, 'm' || i FROM n""",
    f"""INSERT INTO interim_pins (table_id, run_key, task_id)
        {EACH_TABLE} SELECT 'm' || i, {OF_ITS_RUN}, 'report' FROM n""",
    f"""INSERT INTO interim_refs (reading_id, table_id, run_key, task_id, map_index, holder, taken_at, lease_until)
        {EACH_TABLE} SELECT 'g' || i, 'm' || i, {OF_ITS_RUN}, 'report', -1, 'h', :now, :late FROM n""",
    f"""INSERT INTO interim_names (name, run_key, table_id, moved_at)
        {EACH_TABLE} SELECT 'name' || i, {OF_ITS_RUN}, 'm' || i, :now FROM n""",
]


@pytest.fixture
def filled(interim_store: Store, clock: MovedClock) -> Store:
    """Tables that stay, each with a consumer, a reader and a name, in runs that are not due."""
    values = {"now": clock.now, "late": clock.now + timedelta(days=30)}

    def fill(conn: sa.Connection) -> None:
        if interim_store.is_postgres:  # without what it may have noted of these tables when other tests had left them empty
            conn.exec_driver_sql(f"TRUNCATE {', '.join(TABLES)}")
        for statement in FILL:
            used = [sa.bindparam(name, value, UtcDateTime) for name, value in values.items() if f":{name}" in statement]
            conn.execute(sa.text(statement).bindparams(*used))

    interim_store.transact(fill)
    return interim_store


def everything_of_tasks(lake: InterimLake, run_id: str) -> None:
    """All that tasks say to the store in a run: some end well, and some are dead in the middle."""
    registry = lake.registry
    lake.begun("clean", run_id=run_id, try_number=1)
    registry.abandon(lake.begun("clean", run_id=run_id, try_number=2), "it was no good")
    writing = lake.begun("clean", run_id=run_id, try_number=3, name="features", scope=Scope.RUN)
    assert registry.heartbeat(writing)
    ref = registry.commit(Output(writing, 1, 3), consumers=["report"])[0]
    reading = registry.consume([ref], attempt=holder("report", run_id=run_id))
    assert registry.heartbeat(reading)
    registry.pin_on([ref], consumers=["publish"], attempt=holder("report", run_id=run_id))
    assert registry.release(reading)
    assert registry.consume_named("features", attempt=holder("audit", run_id=run_id)).tables == (ref,)
    lake.begun("slow", run_id=run_id)
    registry.nudge(DAG, run_id)
    assert registry.table(ref.table_id).pins


def test_no_statement_of_tasks_or_of_the_collector_walks_over_all_tables(
    filled: Store, lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    def unreachable(name: str) -> Catalog:
        raise CatalogUnreachable(name, ConnectionError("down"))

    def passes() -> None:
        clock.move(LATER)
        assert len(lake_of_tables.collector(reported).run(dry_run=True).dropped) == 4 * DUE
        assert len(Collector(lake_of_tables.registry, reported, unreachable).run().failed) == 4 * DUE
        clock.move(LATER)
        assert len(lake_of_tables.collector(reported).run().dropped) == 4 * DUE

    runs = [f"due{number}" for number in range(DUE)]
    sent = sent_by(filled, lambda: [everything_of_tasks(lake_of_tables, run_id) for run_id in runs])
    for run_id in runs:
        reported.finish("report", "publish", "audit", run_id=run_id)
        reported.set("slow", "failed", run_id=run_id)
        reported.end(run_id)
    sent += sent_by(filled, passes)
    assert filled.read(lambda conn: conn.scalar(sa.select(sa.func.count()).select_from(interim_tables))) == MANY

    assert scans(filled, sent, TABLES) == []
    filled.transact(lambda conn: conn.exec_driver_sql("ANALYZE"))
    assert scans(filled, sent, TABLES) == [], "and with statistics"
