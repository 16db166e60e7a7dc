"""A worker on Spark as a process of its own: ``python spark_worker.py <store url> <home of the catalog> <lease in seconds>``."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import Jobs, JobWorker, LifecyclePolicy
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.maintenance.removals import orphan_files
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.spark import SparkConfig, local_session
from airflow_snowpack.store import open_store


def main(url: str, home: str, lease: str) -> int:
    lake = CatalogConfig.embedded(Path(home))
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="snowpack-worker")
    local_session(config)
    print("ready", flush=True)
    period = timedelta(seconds=float(lease))
    # A removal is deleted in many small batches, so that a test can kill the worker between two of them.
    orphan_files.BATCH_PARTS = 1
    policy = LifecyclePolicy(lease=period, heartbeat=period / 3, fence_check=timedelta(seconds=0.5))
    jobs = Jobs(open_store(url), policy)
    removals = Removals(jobs.store)

    def engine() -> SparkEngine:
        return SparkEngine(lambda: local_session(config), lake.load, removals=removals)

    return JobWorker(jobs, engine, "spark-worker", poll=timedelta(seconds=0.2)).run_forever()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
