"""A store is dumped by its database's own tools while jobs run, and continues from the dump in another database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from released_store import dump, restore

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


def test_of_a_restored_store_each_job_counts_once_and_those_that_ended_after_the_dump_run_again(
    postgres_database: str, empty_postgres_database: str
) -> None:
    with Jobs(open_store(postgres_database, clock=lambda: NOW)) as jobs:
        first = jobs.submit(TableName("lake", "db", "running"), ["expire_snapshots"])
        claim = jobs.claim("before")
        assert claim is not None
        second = jobs.submit(TableName("lake", "db", "waiting"), ["expire_snapshots"])
        dumped = dump(postgres_database)
        assert jobs.finish(claim, JobStatus.COMPLETED, [])
        jobs.submit(TableName("lake", "db", "later"), ["expire_snapshots"])

    later = [NOW + timedelta(hours=2)]
    restore(dumped, empty_postgres_database)
    with Jobs(open_store(empty_postgres_database, clock=lambda: later[0])) as jobs:
        assert {job.job_id for job in jobs.list()} == {first.job_id, second.job_id}
        jobs.sweep()
        later[0] += timedelta(hours=1)
        claims = [jobs.claim("after"), jobs.claim("after")]
        assert {found.job.job_id for found in claims if found} == {first.job_id, second.job_id}
        assert not jobs.finish(claim, JobStatus.FAILED, []), "the attempt from before the dump has lost its fence"
        assert all(jobs.finish(found, JobStatus.COMPLETED, []) for found in claims if found)
        assert jobs.claim("after") is None
