"""A migration of a later release, applied to a store of the one before: rows stay, and the older code still finds its columns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import JobFilter, Jobs, JobStatus
from airflow_snowpack.store import Actor, AuditTrail, SchemaOutOfDate, Store, migrate, open_store, upgrade_schema
from airflow_snowpack.store.migrate import current_revision
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.schema import REVISION
from airflow_snowpack.store.tables.jobs import job_history, job_queue, jobs as jobs_table, switches, table_locks

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
FILLED = (jobs_table, job_queue, table_locks, job_history, switches)
LATER = "9000_job_labels"
MIGRATION = f'''
"""Give jobs a label, and labels a table."""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{LATER}", "{REVISION}", None, None

def upgrade() -> None:
    op.add_column("jobs", sa.Column("label", sa.Text))
    op.create_index("ix_jobs_label", "jobs", ["label"])
    op.create_table("labels", sa.Column("name", sa.Text, primary_key=True))
'''


@pytest.fixture
def old(store_url: str) -> Iterator[Store]:
    """A store of the release before: a completed, a running, a pending and a deleted job, and a lock of another program."""
    with Store(open_engine(store_url)) as store:
        store.transact(fill)
        yield store


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as a later release would be: with one more migration."""
    scripts = shutil.copytree(migrate.SCRIPTS, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / f"{LATER}.py").write_text(MIGRATION)
    monkeypatch.setattr(migrate, "SCRIPTS", scripts)
    monkeypatch.setattr(migrate, "REVISION", LATER)


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


def columns(store: Store) -> dict[str, dict[str, tuple[str, bool]]]:
    """The columns of each table, with their type and whether they may be null: what the statements of a release rely on."""
    inspector = sa.inspect(store.engine)
    return {
        table.name: {each["name"]: (str(each["type"]), each["nullable"]) for each in inspector.get_columns(table.name)}
        for table in FILLED
    }


def indexes(store: Store) -> dict[str | None, list[str | None]]:
    found = [index for table in FILLED for index in sa.inspect(store.engine).get_indexes(table.name)]
    return {index["name"]: index["column_names"] for index in found}


def rows(store: Store) -> dict[str, list[Any]]:
    with store.engine.connect() as conn:
        return {table.name: sorted(map(repr, conn.execute(sa.select(table)).all())) for table in FILLED}


def test_a_later_migration_keeps_every_row_column_and_index_as_it_was(old: Store, later: None) -> None:
    columns_before, indexes_before, rows_before = columns(old), indexes(old), rows(old)
    upgrade_schema(old)

    assert current_revision(old) == LATER
    assert rows(old) == rows_before
    assert indexes(old).items() >= indexes_before.items()
    for table, before in columns_before.items():
        assert columns(old)[table].items() >= before.items(), (
            "the previous release reads and writes these while a deployment rolls"
        )
    assert "label" in columns(old)["jobs"]


def test_jobs_of_the_previous_release_continue_after_an_upgrade(
    old: Store, store_url: str, monkeypatch: pytest.MonkeyPatch, later: None
) -> None:
    upgrade_schema(old)
    monkeypatch.undo()  # the release before, on the schema of the one after
    with Jobs(open_store(store_url, clock=lambda: NOW)) as jobs:
        assert [job.job_id for job in jobs.list()] == ["job1", "job2", "job3"]
        assert [job.job_id for job in jobs.page(JobFilter(statuses=frozenset({JobStatus.FAILED}))).items] == []
        assert jobs.history("job1")[0].detail == {"by": "ann"}
        assert jobs.drain().by == "ops"

        claim = jobs.claim("w2")
        assert claim.job.job_id == "job3"
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        vera = Actor("vera", via="cli")
        assert jobs.cancel("job2", actor=vera).status is JobStatus.CANCELLED
        assert jobs.break_lock(TableName("lake", "db", "x"), "etl", actor=vera) is not None
        assert (
            jobs.submit_once(TableName("lake", "db", "t1"), ["expire_snapshots"], key="k", actor=vera).job.status
            is JobStatus.PENDING
        )
        assert len(AuditTrail(jobs.store).latest()) == 3


def test_a_store_of_the_previous_release_upgrades_itself_on_sqlite_and_is_refused_on_postgres(
    old: Store, store_url: str, later: None
) -> None:
    if old.is_postgres:
        with pytest.raises(SchemaOutOfDate, match=rf"is at revision {REVISION}.*needs revision {LATER}.*db upgrade"):
            open_store(store_url)
        return
    with open_store(store_url) as store:
        assert current_revision(store) == LATER


def test_an_upgrade_that_fails_leaves_the_schema_of_the_previous_release(old: Store, later: None) -> None:
    with old.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE labels (name TEXT)")  # the last that the migration creates
    columns_before, indexes_before = columns(old), indexes(old)

    with pytest.raises(sa.exc.DBAPIError):
        upgrade_schema(old)
    assert current_revision(old) == REVISION
    assert (columns(old), indexes(old)) == (columns_before, indexes_before)
