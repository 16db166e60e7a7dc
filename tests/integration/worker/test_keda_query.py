"""The query with which KEDA scales the workers counts the jobs that a worker could claim now."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
import yaml

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store

MANIFEST = Path(__file__).parents[3] / "docker/kubernetes/scaledjob.yaml"


def test_keda_sees_the_depth_of_the_queue(postgres_database: str) -> None:
    (scaled,) = [each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "ScaledJob"]
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    tables = [TableName.parse(f"demo.t{number}", catalog="lake") for number in range(3)]
    with Jobs(open_store(postgres_database)) as jobs, sa.create_engine(postgres_database).connect() as keda:

        def counts() -> tuple[int | None, int]:
            with keda.begin():
                return keda.execute(sa.text(query)).scalar(), jobs.queue_depth()

        seen = [counts()]
        submitted = [jobs.submit(table, ["expire_snapshots"]) for table in tables]
        seen.append(counts())
        claim = jobs.claim("pod-7")
        seen.append(counts())
        jobs.finish(claim, JobStatus.COMPLETED, [])
        jobs.cancel(submitted[2].job_id)
        seen.append(counts())
        for on in (True, False):
            jobs.set_drain(on)
            seen.append(counts())
    assert seen == [(0, 0), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)]
