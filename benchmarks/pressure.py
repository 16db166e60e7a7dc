"""Claims under what slows queues down: 100,000 finished jobs behind them, and an old snapshot held open by another session.

A held snapshot keeps Postgres from clearing away what was claimed before, and a naive claim walks over all of it: in the
hand-written loop the rate falls to a fraction. What a job costs in CPU at the start of a drain and at its end is compared.
"""

from __future__ import annotations

import statistics

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
AT_MOST = 1.25


def run(server: Server, results: Results) -> None:
    stretches: dict[int, list[float]] = {0: [], FINISHED: []}
    for _ in range(2):  # in turns, so that a slow minute of the machine falls on both
        for finished, cost in stretches.items():
            cost += _drain(server, results, finished=finished, held=False)
    reference, behind = (statistics.median(cost) for cost in stretches.values())
    what = f"CPU of a claim + finish: behind {FINISHED:,} finished jobs / on an empty store"
    says = f"{behind:,.0f} µs : {reference:,.0f} µs"
    results.find(Finding(what, behind / reference, at_most=AT_MOST, says=says))
    held = _drain(server, results, finished=FINISHED, held=True)
    quarter = len(held) // 4
    first, last = statistics.median(held[:quarter]), statistics.median(held[-quarter:])
    what = "CPU of a claim + finish while a snapshot is held: last quarter of a drain / first"
    results.find(Finding(what, last / first, at_most=AT_MOST, says=f"{last:,.0f} µs : {first:,.0f} µs"))


def _drain(server: Server, results: Results, *, finished: int, held: bool) -> list[float]:
    """What a job costs in each stretch of claims and finishes, by one worker: microseconds of CPU."""
    url = server.fresh_database("bench_pressure", durable=False)
    ours.create(url)
    with psycopg.connect(url, autocommit=True) as connection:
        _fill(connection, finished)
        connection.execute("VACUUM ANALYZE")
    stretches: list[Meter] = []
    with psycopg.connect(url) as other, Jobs(open_store(url)) as jobs:
        if held:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM job_queue")
        wait_calm()
        with Meter(server) as meter:
            for _ in range(WAITING // STRETCH):
                with Meter(server) as stretch:
                    _work(jobs)
                stretches.append(stretch)
    rates = [STRETCH / stretch.seconds for stretch in stretches]
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
    return [stretch.own_cpu / STRETCH * 1e6 for stretch in stretches]


def _work(jobs: Jobs) -> None:
    for _ in range(STRETCH):
        claim = jobs.claim("worker-1")
        if claim is None or not jobs.finish(claim, JobStatus.COMPLETED, []):
            raise AssertionError("The queue has jobs, and nobody else claims them.")


def _fill(connection: psycopg.Connection, finished: int) -> None:
    """Finished jobs, and waiting ones as submit leaves them."""
    names = "'job' || i, 'lake', 'bench', 't' || i, 'lake.bench.t' || i"
    moment = "now() - interval '1 hour' + i * interval '1 ms'"
    connection.execute(
        f"""INSERT INTO jobs (job_id, catalog, database_name, table_name, table_key, actions, options, dry_run, inline,
                              status, submitted_at, completed_at, attempt)
            SELECT {names}, '["expire_snapshots"]', '{{}}', false, false,
                   CASE WHEN i <= {finished} THEN 'completed' ELSE 'pending' END, {moment},
                   CASE WHEN i <= {finished} THEN {moment} END, 0
              FROM generate_series(1, {finished + WAITING}) i"""
    )
    waiting = f"generate_series({finished + 1}, {finished + WAITING}) i"
    connection.execute(
        f"""INSERT INTO job_queue (job_id, enqueued_at, visible_at, attempt_count, database_name, turn)
            SELECT 'job' || i, {moment}, {moment}, 0, 'bench', i FROM {waiting}"""
    )
    connection.execute(
        f"""INSERT INTO table_locks (table_key, catalog, database_name, table_name, holder, acquired_at, expires_at)
            SELECT 'lake.bench.t' || i, 'lake', 'bench', 't' || i, 'job' || i, now(), now() + interval '30 min' FROM {waiting}"""
    )
