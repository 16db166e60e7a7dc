"""A store of each release, with the data of a day, is upgraded and used by the package as it is now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pages_world import CATALOG
from released_store import NAMES, restore

from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store, upgrade_schema
from airflow_snowpack.store.migrate import SCRIPTS, VERSION_TABLE, current_revision
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.schema import BASELINE, REVISION, metadata

RELEASES = sorted(folder.name for folder in (Path(__file__).parents[2] / "releases").iterdir())
FROZEN = {
    "sqlite": "7f7ffd723893f2f03cf1a2fc8efc4b94e68187bc2d9357a54ec1cd25907d2d69",
    "postgresql": "17eb5eead9774a30517ed5ae3463503a1fae5e7d7972c941ff5521c9ea0a251a",
}
"""SHA-256 of the baseline of release 0.1: installed stores have exactly these tables. A change is a migration on top."""


@pytest.fixture(params=RELEASES)
def released(request: pytest.FixtureRequest, empty_store_url: str) -> Iterator[str]:
    """The URL of a store of a release."""
    database = sa.make_url(empty_store_url).get_backend_name()
    restore((Path(__file__).parents[2] / "releases" / request.param / NAMES[database]).read_text(), empty_store_url)
    with Store(open_engine(empty_store_url)) as store:
        upgrade_schema(store)
    return empty_store_url


def rows(store: Store) -> dict[str, int]:
    tables = sa.inspect(store.engine).get_table_names()
    return {name: store.all(sa.text(f"SELECT COUNT(*) AS n FROM {name}"))[0].n for name in tables}


@pytest.mark.parametrize("database", sorted(FROZEN))
def test_the_baseline_of_the_first_release_never_changes(database: str) -> None:
    text = (SCRIPTS / "versions" / f"{BASELINE}.{database}.sql").read_bytes()
    assert hashlib.sha256(text).hexdigest() == FROZEN[database], "add a migration instead, and restore the file"


def test_a_store_of_a_release_is_upgraded_to_the_tables_of_the_code(released: str) -> None:
    with open_store(released) as store:
        assert current_revision(store) == REVISION
        with store.engine.connect() as conn:
            context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []


def test_everything_of_a_store_of_a_release_can_be_read(released: str) -> None:
    with open_store(released) as store:
        found: dict[str, Any] = rows(store)
        installation = Installation(store, catalog_name=CATALOG)
        jobs = installation.jobs.list()
        assert len(jobs) == found["jobs"]
        assert {job.status for job in jobs} == set(JobStatus)
        assert sum(len(installation.jobs.history(job.job_id)) for job in jobs) == found["job_history"]
        assert len(AuditTrail(store).latest()) == found["audit_trail"]
        assert len(installation.schedules().list()) == found["schedules"]
        assert min(found["launches"], found["events"], found["table_locks"]) > 0


def test_a_queue_of_a_release_continues_with_its_locks_after_the_upgrade(released: str) -> None:
    with open_store(released) as store:
        jobs = Installation(store, catalog_name=CATALOG).jobs
        pending = [job for job in jobs.list() if job.status is JobStatus.PENDING]
        claim = jobs.claim("worker-of-now", catalog_id=pending[0].table.catalog_id)
        assert claim is not None
        assert claim.job.status is JobStatus.RUNNING
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        running = [job for job in jobs.list() if job.status is JobStatus.RUNNING]
        assert running
        assert jobs.cancel(running[0].job_id, actor=Actor("vera", via="cli")).status is JobStatus.CANCELLED
