"""A worker on a Spark Thrift Server: ``python thrift_worker.py <store url> <home of the catalog> <port> <lease in seconds>``."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import Jobs, JobWorker, LifecyclePolicy
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.spark import ThriftServer
from airflow_snowpack.store import open_store


def main(url: str, home: str, port: str, lease: str) -> int:
    lake, server = CatalogConfig.embedded(Path(home)), ThriftServer("the_server", "127.0.0.1", int(port))
    period = timedelta(seconds=float(lease))
    jobs = Jobs(open_store(url), LifecyclePolicy(lease=period, heartbeat=period / 3, fence_check=timedelta(seconds=0.5)))
    worker = JobWorker(jobs, lambda: SparkEngine(server, lake.load), "thrift-worker", poll=timedelta(seconds=0.2))
    return worker.run_forever()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
