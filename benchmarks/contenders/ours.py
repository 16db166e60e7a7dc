"""Our own lifecycle as a worker has it: a fenced claim that renews the table lock, a fenced finish that acks and unlocks.

The history is written as it always is, in the background and in batches; its CPU counts.
"""

from __future__ import annotations

import os
import time

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus
from airflow_snowpack.store import Store, open_store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from benchmarks.harness import Contender, Meter, Signals

ACTIONS = ["rewrite_data_files"]


def create(url: str) -> None:
    with Store(open_engine(url)) as store:
        upgrade_schema(store)


def fill(url: str, n: int) -> None:
    with Jobs(open_store(f"{url}?options=-csynchronous_commit%3Doff")) as jobs:
        for i in range(n):
            jobs.submit(TableName("lake", "bench", f"t{i}"), ACTIONS)


def work(signals: Signals, url: str) -> None:
    worker_id = f"worker-{os.getpid()}"
    with Jobs(open_store(url)) as jobs:
        signals.ready.set()
        signals.go.wait()
        while not signals.stop.is_set():
            claim = jobs.claim(worker_id)
            if claim is None:
                time.sleep(0.02)
                continue
            done = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 87 files into 12", 1.5)
            if not jobs.finish(claim, JobStatus.COMPLETED, [done]):
                raise AssertionError(f"The claim of {claim.job.job_id} was lost although its lease lasts.")


def enqueue(url: str, n: int, meter: Meter) -> None:
    with Jobs(open_store(url)) as jobs:
        for i in range(20):
            jobs.submit(TableName("lake", "bench", f"warm_up_{i}"), ACTIONS)
        with meter:
            for i in range(n):
                jobs.submit(TableName("lake", "bench", f"t{i}"), ACTIONS)
            jobs.flush()


OURS = Contender(
    name="ours",
    create=create,
    fill=fill,
    work=work,
    enqueue=enqueue,
    unfinished="SELECT 1 FROM job_queue LIMIT 1",
)
