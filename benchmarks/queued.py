"""Queued maintenance at rest: the CPU of 1,000 waiting tasks, and how soon a worker claims a job of an empty queue.

The triggers run in one event loop, as in a triggerer. The worker is a process with the default period.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus, JobWorker
from airflow_snowpack.store import open_store
from benchmarks.contenders import ours
from benchmarks.harness import SPAWN, Meter, wait_calm
from benchmarks.results import Finding, Measurement, Results

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Job
    from benchmarks.postgres import Server

WAITING = 1_000
MEASURED_S = 60.0
POLL = timedelta(seconds=5)
CLAIMS = 20
AT_MOST_CORES = 0.02
AT_MOST_CLAIM_S = 5.0


def run(server: Server, results: Results) -> None:
    _waiting(server, results)
    _first_claims(server, results)


def _waiting(server: Server, results: Results) -> None:
    url = server.fresh_database("bench_queued", durable=False)
    ours.create(url)
    with Jobs(open_store(url)) as jobs:
        job_ids = [
            jobs.submit(TableName("lake", "bench", f"t{number}"), ["expire_snapshots"]).job_id for number in range(WAITING)
        ]
    place = urlsplit(url)
    login = {"login": place.username, "password": place.password, "host": place.hostname, "port": place.port}
    connection = {"conn_type": "postgres", "schema": place.path.lstrip("/"), **login}
    os.environ["AIRFLOW_CONN_BENCH_STORE"] = json.dumps(connection)
    os.environ["AIRFLOW__SNOWPACK__RESUME_DELAY"] = "PT0.001S"
    own, meter = asyncio.run(_measure_triggers(server, job_ids))
    results.add(
        Measurement(
            what="waiting",
            contender="ours",
            n=WAITING,
            seconds=round(meter.seconds, 1),
            per_s=0.0,
            cpu_us=round(meter.own_cpu / WAITING * 1e6, 1),
            foreign_cpu=round(meter.foreign_cores, 2),
            extra={"cpu_of_the_triggerer_s": round(own, 3), "with_postgres_s": round(meter.own_cpu, 3)},
        )
    )
    what = f"CPU of {WAITING:,} tasks that wait for queued jobs, in cores"
    says = f"{own:.2f} s of CPU in {meter.seconds:.0f} s"
    results.find(Finding(what, own / meter.seconds, at_most=AT_MOST_CORES, says=says))


async def _measure_triggers(server: Server, job_ids: list[str]) -> tuple[float, Meter]:
    """Let all of them ask once, and measure the next minute; gives the CPU of this process, and the meter's."""
    from airflow_snowpack.triggers import MaintenanceJobTrigger

    async def wait(job_id: str) -> None:
        trigger = MaintenanceJobTrigger(job_id, "bench_store", owner=f"bench/run/{job_id}")
        async for event in trigger.run():
            raise AssertionError(f"No job has ended: {event}")

    tasks = [asyncio.create_task(wait(job_id)) for job_id in job_ids]
    await asyncio.sleep(15)
    with Meter(server) as meter:
        before = time.process_time()
        await asyncio.sleep(MEASURED_S)
        own = time.process_time() - before
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return own, meter


class NothingToDo:
    """An engine whose actions end at once."""

    server: str | None = None
    gb_hours: float | None = None

    def run(self, job: Job, action: str) -> ActionResult:
        return ActionResult(action, ActionOutcome.SUCCEEDED, "There was nothing to do", 0.0)

    def interrupt(self) -> None: ...


def work(url: str) -> None:
    with Jobs(open_store(url)) as jobs:
        JobWorker(jobs, NothingToDo, "worker-1", poll=POLL).run_forever()


def _first_claims(server: Server, results: Results) -> None:
    url = server.fresh_database("bench_first_claim", durable=True)
    ours.create(url)
    worker = SPAWN.Process(target=work, args=(url,), daemon=True)
    worker.start()
    try:
        with Jobs(open_store(url)) as jobs:
            _claim_of(jobs, "warm")
            wait_calm()
            with Meter(server) as meter:
                taken = [_claim_of(jobs, f"t{number}") for number in range(CLAIMS)]
    finally:
        worker.terminate()
        worker.join(30)
    median = statistics.median(taken)
    results.add(
        Measurement(
            what="first claim",
            contender="ours",
            n=CLAIMS,
            seconds=round(meter.seconds, 1),
            per_s=0.0,
            cpu_us=round(meter.own_cpu / CLAIMS * 1e6, 1),
            foreign_cpu=round(meter.foreign_cores, 2),
            setting={"poll_s": POLL.total_seconds()},
            extra={"median_s": round(median, 2), "longest_s": round(max(taken), 2)},
        )
    )
    what = "seconds from a submit into an empty queue to the claim by a worker, median"
    results.find(Finding(what, median, at_most=AT_MOST_CLAIM_S, says=f"longest {max(taken):.2f} s, of {CLAIMS}"))


def _claim_of(jobs: Jobs, name: str) -> float:
    """Submit a job at a random moment of the worker's period; gives the seconds until its claim, by the store's clock."""
    time.sleep(random.uniform(0, POLL.total_seconds()))
    job = jobs.submit(TableName("lake", "bench", name), ["expire_snapshots"])
    while (job := jobs.get(job.job_id)).status is not JobStatus.COMPLETED:
        time.sleep(0.05)
    assert job.started_at is not None
    return (job.started_at - job.submitted_at).total_seconds()
