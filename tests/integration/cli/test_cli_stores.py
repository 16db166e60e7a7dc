"""A day at the command line, on both databases."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from app_client import AppClient
from command_line import Run, command_line, settle

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus, LifecyclePolicy
from airflow_snowpack.store import AuditTrail

FLIGHTS = TableName("lake", "demo", "flights")


def test_what_is_done_at_the_command_line_is_done_in_the_store_and_noted(snowpack: Run, jobs: Jobs) -> None:
    job = jobs.submit(FLIGHTS, ["expire_snapshots"])
    assert snowpack("jobs", "cancel", job.job_id[:12], "--yes").code == 0
    assert snowpack("jobs", "delete", job.job_id[:12], "--yes").code == 0
    assert snowpack("jobs", "show", job.job_id).code == 4
    jobs.locks.acquire(FLIGHTS, "etl", ttl=timedelta(hours=1))
    assert snowpack("locks", "release", "demo.flights", "--holder", "etl", "--yes").code == 0
    assert snowpack("drain", "on").code == 0
    assert snowpack("sweep").code == 5
    assert snowpack("drain", "off").code == 0
    assert snowpack("queue", "-o", "json").json["depth"] == 0

    trail = [(entry.actor, entry.via, entry.change) for entry in AuditTrail(jobs.store).latest()]
    assert trail == [("ann", "cli", change) for change in ("drain_off", "drain_on", "release_lock", "delete", "cancel")]
    assert [entry["change"] for entry in snowpack("audit", "-o", "json").json["entries"]] == [change for _, _, change in trail]


def test_a_store_without_tables_is_refused_with_the_command_that_makes_them(
    empty_postgres_database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(empty_postgres_database, tmp_path, monkeypatch)
    snowpack = command_line(capfd)
    for command in (("jobs", "list"), ("db", "check")):
        said = snowpack(*command)
        assert (said.code, "Run `airflow snowpack db upgrade`." in said.err) == (6, True), command


@pytest.mark.one_database
def test_a_submitted_job_is_run_by_a_worker_on_spark_and_watched_to_its_end(
    snowpack: Run, jobs: Jobs, small_files: TableName
) -> None:
    asked = snowpack("jobs", "submit", small_files.dotted, "-a", "rewrite_data_files", "-o", "json").json
    assert snowpack("worker", "--once").code == 0
    watched = snowpack("jobs", "watch", asked["job_id"])

    assert watched.code == 0
    assert "rewrite_data_files succeeded" in watched.out
    assert jobs.get(asked["job_id"]).status is JobStatus.COMPLETED
    health = snowpack("tables", "show", small_files.dotted, "-o", "json").json["health"]
    assert (health["data_files"], health["records"]) == (1, 6)


def test_every_face_counts_the_queue_as_the_query_that_scales_workers_does(
    snowpack: Run, jobs: Jobs, store_url: str, tmp_path: Path
) -> None:
    from api_process import TOKEN, build

    page = (Path(__file__).parents[3] / "docs" / "store.md").read_text()
    (query,) = re.findall(r"```sql\n(SELECT COUNT\(\*\) FROM job_queue .*)\n```", page)
    api = AppClient(build(store_url, tmp_path))

    def counted() -> set[int]:
        answer = api("GET", "/queue", Authorization=f"Bearer {TOKEN}").json()
        now = "NOW()" if jobs.store.is_postgres else f"'{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}'"  # SQLite has no such function
        scaled = int(jobs.store.scalar(sa.text(query.replace("NOW()", now))))
        return {scaled, answer["depth"], snowpack("queue", "-o", "json").json["depth"], jobs.queue_depth(), jobs.queue().depth}

    assert counted() == {0}
    ids = [jobs.submit(TableName("lake", "db", f"t{number}"), ["expire_snapshots"]).job_id for number in range(6)]
    jobs.cancel(ids[0])
    claim = jobs.claim("running", job_id=ids[1])
    done = jobs.claim("done", job_id=ids[2])
    assert claim is not None
    assert done is not None
    jobs.finish(done, JobStatus.COMPLETED, [])
    hasty = Jobs(jobs.store, LifecyclePolicy(lease=timedelta(microseconds=1)))
    hasty.claim("lost", job_id=ids[3])
    hasty.flush()
    assert jobs.sweep().requeued == (ids[3],), "it waits for the end of its back-off"
    assert counted() == {2}
    jobs.set_drain(True)
    assert counted() == {0}
