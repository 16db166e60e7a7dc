"""The REST API: submissions beside a bare FastAPI route that does one INSERT, and how a list of jobs grows with their number.

Both servers are uvicorn with one worker in a process of its own, on the same Postgres with the same driver, and the same client
asks both, in turns.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from benchmarks.contenders.our_api import TOKEN
from benchmarks.harness import Meter, wait_calm
from benchmarks.http_client import ask, request
from benchmarks.postgres import Server
from benchmarks.results import Finding, Measurement, Results

OURS, BARE = "ours", "bare FastAPI"
SUBMITS, WARM = 2_000, 200
CONNECTIONS = 8
FEW, MANY = 100, 100_000
LOOKS = 400
AT_LEAST, AT_MOST = 0.5, 3.0
BODY = json.dumps({"actions": ["rewrite_data_files", "expire_snapshots"]}).encode()

TABLES = """
    INSERT INTO inventory_tables (table_key, catalog, database_name, table_name, first_seen_at)
    SELECT 'lake.db.t' || n, 'lake', 'db', 't' || n, now() FROM generate_series(0, %s) n
"""
# As if the catalog had been listed a moment ago: nothing asks for it meanwhile.
LISTED = "INSERT INTO inventory_refreshes (catalog, tried_at, refreshed_at) VALUES ('lake', now(), now())"
JOBS = """
    INSERT INTO jobs (job_id, catalog, database_name, table_name, table_key, actions, options, dry_run, status, submitted_at,
                      submitted_by, inline, started_at, completed_at, attempt, results)
    SELECT md5(n::text), 'lake', 'db', 't' || mod(n, 500), 'lake.db.t' || mod(n, 500), '["expire_snapshots"]', '{}', false,
           CASE WHEN mod(n, 50) = 0 THEN 'failed' ELSE 'completed' END, now() - n * interval '1 minute', 'me', false,
           now() - n * interval '1 minute', now() - n * interval '1 minute' + interval '20 seconds', 1,
           '[{"action": "expire_snapshots", "outcome": "succeeded", "message": "Expired 28 snapshots", "elapsed_seconds": 5.1,
              "error": null, "metrics": {}}]'
    FROM generate_series(1, %s) n
"""


def run(server: Server, results: Results, *, rounds: int) -> None:
    for durable in (False, True):
        for round_ in range(rounds):
            for contender in (BARE, OURS):
                results.add(_submits(server, contender, durable=durable, round_=round_))
        _compare(results, durable=durable)
    for round_ in range(rounds):
        for jobs in (FEW, MANY):
            results.add(_lists(server, jobs, round_=round_))
    few, many = (_p99(results, jobs) for jobs in (FEW, MANY))
    title = f"GET /jobs, p99: with {MANY:,} jobs / with {FEW}"
    results.find(Finding(title, many / few, at_most=AT_MOST, says=f"{many:.2f} ms : {few:.2f} ms"))


def _submits(server: Server, contender: str, *, durable: bool, round_: int) -> Measurement:
    url = server.fresh_database(f"bench_api_{'ours' if contender is OURS else 'bare'}", durable=durable)
    if contender is OURS:
        _prepare(url, TABLES, SUBMITS + WARM)
    token = TOKEN if contender is OURS else None
    asks = [request("POST", f"/tables/db/t{n}/maintenance", token=token, body=BODY) for n in range(SUBMITS + WARM)]
    with _serving(contender, url) as port:
        ask(port, asks[:WARM], status=202, connections=CONNECTIONS)
        wait_calm()
        with Meter(server) as meter:
            ask(port, asks[WARM:], status=202, connections=CONNECTIONS)
    return _measured("POST", contender, SUBMITS, meter, {"durable": durable, "round": round_}, {})


def _lists(server: Server, jobs: int, *, round_: int) -> Measurement:
    url = server.fresh_database("bench_api_list", durable=False)
    _prepare(url, JOBS, jobs)
    look = request("GET", "/jobs", token=TOKEN)
    with _serving(OURS, url) as port:
        ask(port, [look] * 50, status=200)
        wait_calm()
        with Meter(server) as meter:
            seconds = sorted(ask(port, [look] * LOOKS, status=200))
    extra = {"p50_ms": round(statistics.median(seconds) * 1000, 2), "p99_ms": round(seconds[int(LOOKS * 0.99)] * 1000, 2)}
    return _measured("GET /jobs", OURS, LOOKS, meter, {"jobs": jobs, "round": round_}, extra)


def _measured(
    what: str, contender: str, n: int, meter: Meter, setting: dict[str, object], extra: dict[str, object]
) -> Measurement:
    return Measurement(
        what=what,
        contender=contender,
        n=n,
        seconds=round(meter.seconds, 3),
        per_s=round(n / meter.seconds, 1),
        cpu_us=round(meter.own_cpu / n * 1e6, 1),
        foreign_cpu=round(meter.foreign_cores, 2),
        setting=setting,
        extra=extra,
    )


def _compare(results: Results, *, durable: bool) -> None:
    said = "durable" if durable else "not durable"
    ours, bare = (results.median("per_s", "POST", each, durable=durable) for each in (OURS, BARE))
    title = f"submissions a second through HTTP, {said}: ours / a bare route with one INSERT"
    results.find(Finding(title, ours / bare, at_least=AT_LEAST, says=f"{ours:,.0f}/s : {bare:,.0f}/s"))
    ours, bare = (results.median("cpu_us", "POST", each, durable=durable) for each in (OURS, BARE))
    results.find(Finding(f"the same in CPU, {said}", ours / bare, at_most=1 / AT_LEAST, says=f"{ours:,.0f} µs : {bare:,.0f} µs"))


def _p99(results: Results, jobs: int) -> float:
    found = [each for each in results.measurements if each.what == "GET /jobs" and each.setting["jobs"] == jobs]
    return statistics.median(float(each.extra["p99_ms"]) for each in found)


def _prepare(url: str, fill: str, n: int) -> None:
    with Store(open_engine(url)) as store:
        upgrade_schema(store)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(LISTED)
        connection.execute(fill, (n,))
        connection.execute("VACUUM ANALYZE")  # as a store that has run for a while has it


@contextmanager
def _serving(contender: str, url: str) -> Iterator[int]:
    module = "our_api" if contender is OURS else "bare_api"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", f"benchmarks.contenders.{module}", url, str(port)])
    try:
        _wait_until_it_listens(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < give_up:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("The server did not start; see its output above.")
