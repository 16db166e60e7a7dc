"""Claims under what slows queues down: 100,000 finished jobs behind them, and an old snapshot held open by another session.

A held snapshot keeps Postgres from clearing away what was claimed before, and a naive claim walks over all of it: in the
hand-written loop the rate falls to a fraction. The first and the last rate of one drain are compared.
"""

from __future__ import annotations

import statistics
import time

import psycopg

from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from benchmarks.contenders import ours
from benchmarks.harness import Meter, wait_calm
from benchmarks.postgres import Server
from benchmarks.results import Finding, Measurement, Results

FINISHED = 100_000
WAITING = 20_000
STRETCH = 1_000
AT_LEAST = 0.8


def run(server: Server, results: Results) -> None:
    reference = statistics.median(_drain(server, results, finished=0, held=False))
    behind = _drain(server, results, finished=FINISHED, held=False)
    ratio = statistics.median(behind) / reference
    results.find(Finding(f"claims behind {FINISHED:,} finished jobs / on an empty store, rate", ratio, at_least=AT_LEAST))
    held = _drain(server, results, finished=FINISHED, held=True)
    ratio = statistics.median(held[-4:]) / statistics.median(held[:4])
    says = f"{held[0]:,.0f}/s at first, {held[-1]:,.0f}/s at last"
    results.find(Finding("claims with a snapshot held open: last / first rate of a drain", ratio, at_least=AT_LEAST, says=says))


def _drain(server: Server, results: Results, *, finished: int, held: bool) -> list[float]:
    """The rate of each stretch of claims and finishes, by one worker."""
    url = server.fresh_database("bench_pressure", durable=False)
    ours.create(url)
    with psycopg.connect(url, autocommit=True) as connection:
        _fill(connection, finished)
        connection.execute("VACUUM ANALYZE")
    rates: list[float] = []
    with psycopg.connect(url) as other, Jobs(open_store(url)) as jobs:
        if held:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM job_queue")
        wait_calm()
        with Meter(server) as meter:
            for _ in range(WAITING // STRETCH):
                began = time.monotonic()
                for _ in range(STRETCH):
                    claim = jobs.claim("worker-1")
                    if claim is None or not jobs.finish(claim, JobStatus.COMPLETED, []):
                        raise AssertionError("The queue has jobs, and nobody else claims them.")
                rates.append(STRETCH / (time.monotonic() - began))
    results.add(
        Measurement(
            what="pressure",
            contender="ours",
            n=WAITING,
            seconds=round(meter.seconds, 3),
            per_s=round(WAITING / meter.seconds, 1),
            cpu_us=round(meter.own_cpu / WAITING * 1e6, 1),
            foreign_cpu=round(meter.foreign_cores, 2),
            setting={"finished": finished, "snapshot_held": held},
            extra={"first_per_s": round(rates[0]), "last_per_s": round(rates[-1])},
        )
    )
    return rates


def _fill(connection: psycopg.Connection, finished: int) -> None:
    """Finished jobs, and waiting ones as submit leaves them."""
    names = "'job' || i, 'lake', 'bench', 't' || i, 'lake.bench.t' || i"
    connection.execute(
        f"""INSERT INTO jobs (job_id, catalog, database_name, table_name, table_key, actions, options, dry_run, status,
                              submitted_at, completed_at, attempt)
            SELECT {names}, '["expire_snapshots"]', '{{}}', false,
                   CASE WHEN i <= {finished} THEN 'completed' ELSE 'pending' END, now(),
                   CASE WHEN i <= {finished} THEN now() END, 0
              FROM generate_series(1, {finished + WAITING}) i"""
    )
    waiting = f"generate_series({finished + 1}, {finished + WAITING}) i"
    connection.execute(
        f"""INSERT INTO job_queue (job_id, enqueued_at, visible_at, attempt_count)
            SELECT 'job' || i, now() - interval '1 hour' + i * interval '1 ms', now() - interval '1 hour', 0 FROM {waiting}"""
    )
    connection.execute(
        f"""INSERT INTO table_locks (table_key, catalog, database_name, table_name, holder, acquired_at, expires_at)
            SELECT 'lake.bench.t' || i, 'lake', 'bench', 't' || i, 'job' || i, now(), now() + interval '30 min' FROM {waiting}"""
    )
