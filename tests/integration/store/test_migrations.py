"""A database of an earlier version: its rows stay what they were, and the code before still finds its tables as it knows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Actor, AuditTrail, Desk, JobFilter, Jobs, JobStatus
from airflow_snowpack.store import SchemaOutOfDate, Store, open_store, upgrade_schema
from airflow_snowpack.store.engine import open_engine
from airflow_snowpack.store.migrate import SCRIPTS, VERSION_TABLE, current_revision
from airflow_snowpack.store.schema import REVISION, job_history, job_queue, switches, table_locks
from airflow_snowpack.store.schema import jobs as jobs_table

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
TABLES_OF_0001 = (jobs_table, job_queue, table_locks, job_history, switches)


@pytest.fixture
def old(store_url: str) -> Iterator[Store]:
    """A database as version 0001 left it: a finished, a running, a waiting and a deleted job, and a lock of somebody else."""
    with Store(open_engine(store_url)) as store:
        store.transact(lambda conn: migrate(conn, "0001"))
        store.transact(fill)
        yield store


def migrate(conn: sa.Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = conn
    command.upgrade(config, revision)


def fill(conn: sa.Connection) -> None:
    def job(number: int, status: str, **more: Any) -> None:
        named = {"catalog": "lake", "database_name": "db", "table_name": f"t{number}", "table_key": f"lake.db.t{number}"}
        asked = {"actions": ["expire_snapshots"], "options": {}, "dry_run": False, "inline": False, "attempt": 0}
        moment = NOW - timedelta(minutes=number)
        row = {"job_id": f"job{number}", "status": status, "submitted_at": moment, **named, **asked, **more}
        conn.execute(sa.insert(jobs_table).values(row))
        if status in ("pending", "running"):
            lock = {**named, "holder": f"job{number}", "acquired_at": moment, "expires_at": NOW + timedelta(minutes=30)}
            conn.execute(sa.insert(table_locks).values(lock))
            place = {"job_id": f"job{number}", "enqueued_at": moment, "visible_at": moment, "attempt_count": 0}
            claim = {"claimed_at": NOW, "claimed_by": "w", "attempt_id": "a", "visible_at": NOW + timedelta(minutes=30)}
            conn.execute(sa.insert(job_queue).values(place | (claim if status == "running" else {})))

    job(1, "completed", completed_at=NOW, error=None, results=[])
    job(2, "running", started_at=NOW, attempt_id="a")
    job(3, "pending", owner="dag/run/task")
    job(4, "failed", error="boom", deleted_at=NOW)
    etl = {"table_key": "lake.db.x", "catalog": "lake", "database_name": "db", "table_name": "x", "holder": "etl"}
    conn.execute(sa.insert(table_locks).values(**etl, acquired_at=NOW, expires_at=NOW + timedelta(hours=1)))
    conn.execute(sa.insert(job_history).values(job_id="job1", at=NOW, event="submitted", detail={"by": "ann"}))
    conn.execute(sa.insert(switches).values(name="drain", enabled=False, changed_at=NOW, changed_by="ops", reason=None))


def shapes(store: Store) -> dict[str, list[tuple[str, str, bool]]]:
    """The columns of the tables that version 0001 made: what its statements rely on."""
    inspector = sa.inspect(store.engine)
    return {
        table.name: [(each["name"], str(each["type"]), each["nullable"]) for each in inspector.get_columns(table.name)]
        for table in TABLES_OF_0001
    }


def rows(store: Store) -> dict[str, list[Any]]:
    with store.engine.connect() as conn:
        return {table.name: sorted(map(repr, conn.execute(sa.select(table)).all())) for table in TABLES_OF_0001}


def test_an_upgrade_keeps_every_row_and_every_column_as_it_was(old: Store) -> None:
    shapes_before, rows_before = shapes(old), rows(old)
    upgrade_schema(old)

    assert current_revision(old) == REVISION
    assert rows(old) == rows_before
    assert shapes(old) == shapes_before, "the code before writes and reads these, while a deployment rolls"


def test_the_index_that_the_code_before_lists_jobs_by_is_there_after_the_upgrade(old: Store) -> None:
    before = {index["name"] for table in TABLES_OF_0001 for index in sa.inspect(old.engine).get_indexes(table.name)}
    upgrade_schema(old)
    columns = {
        tuple(index["column_names"]) for table in TABLES_OF_0001 for index in sa.inspect(old.engine).get_indexes(table.name)
    }

    assert "ix_jobs_submitted_at_job_id" in before
    assert ("submitted_at", "job_id") in columns
    assert ("table_key", "submitted_at") in {each[:2] for each in columns}


def test_jobs_of_the_version_before_go_on_under_this_one(old: Store, store_url: str) -> None:
    upgrade_schema(old)
    with Jobs(open_store(store_url, clock=lambda: NOW)) as jobs:
        assert [job.job_id for job in jobs.list()] == ["job1", "job2", "job3"]
        assert [job.job_id for job in jobs.page(JobFilter(statuses=frozenset({JobStatus.FAILED}))).jobs] == []
        assert jobs.history("job1")[0].detail == {"by": "ann"}
        assert jobs.drain().by == "ops"

        claim = jobs.claim("w2")
        assert claim is not None
        assert claim.job.job_id == "job3"
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        desk = Desk(jobs, Actor("vera", via="cli"))
        assert desk.cancel("job2").status is JobStatus.CANCELLED
        assert desk.release_lock(TableName("lake", "db", "x"), "etl") is not None
        assert desk.submit(TableName("lake", "db", "t1"), ["expire_snapshots"], key="k").job.status is JobStatus.PENDING
        assert len(AuditTrail(jobs.store).latest()) == 3


def test_an_earlier_version_is_upgraded_by_itself_on_sqlite_and_named_on_postgres(old: Store, store_url: str) -> None:
    if old.is_postgres:
        with pytest.raises(SchemaOutOfDate, match=rf"is at revision 0001.*needs revision {REVISION}.*db upgrade"):
            open_store(store_url)
        return
    with open_store(store_url) as store:
        assert current_revision(store) == REVISION


def test_an_upgrade_that_breaks_off_leaves_the_version_before(old: Store) -> None:
    with old.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE inventory_refreshes (catalog TEXT)")  # the last that the migration makes

    with pytest.raises(sa.exc.DBAPIError):
        upgrade_schema(old)
    assert current_revision(old) == "0001"
    tables = set(sa.inspect(old.engine).get_table_names())
    assert tables == {table.name for table in TABLES_OF_0001} | {VERSION_TABLE, "inventory_refreshes"}
    assert "ix_jobs_table_key_submitted_at" in {index["name"] for index in sa.inspect(old.engine).get_indexes("jobs")}
