"""A pass over a fleet of which one table in twenty needs work, beside the five procedures on every table in one warm session.

Both are processes of their own, whose CPU counts with that of their JVMs. The procedures run on a sample of tables that are made
alike (one in twenty sick), because they take minutes for each hundred; the CPU of their calls is scaled to the fleet. The next
pass has nothing to do; its reads are counted. At last, 10,000 tables are planned from stored health.

    python -m benchmarks fleet
    python -m benchmarks.fleet out.json 1000 50 100        # tables, sick ones, sample
"""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.queued_tables import PR_SET_CHILD_SUBREAPER, _fork
from benchmarks.results import Finding, Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.iceberg import CatalogConfig, TableName
    from airflow_snowpack.maintenance.fleet.fleet import Fleet
    from airflow_snowpack.store import Store

TABLES, SICK, SAMPLE, STORED = 1_000, 50, 100, 10_000
FILES = 12
ROWS = 100
SHARE_AT_MOST = 0.05
NEXT_PASS_AT_MOST_MS = 5.0
PLANNING_AT_MOST_S = 5.0
PROCEDURES = (
    "rewrite_data_files(table => '{table}', options => map('min-input-files', '5'))",
    "rewrite_position_delete_files(table => '{table}')",
    "rewrite_manifests(table => '{table}')",
    "expire_snapshots(table => '{table}', retain_last => 3)",
    "remove_orphan_files(table => '{table}')",
)


def run(results: Results, tables: int = TABLES, sick: int = SICK, sample: int = SAMPLE) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        out = Path(home) / "measured.json"
        command = [sys.executable, "-m", "benchmarks.fleet", str(out), str(tables), str(sick), str(sample)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The comparison on Spark failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        report(results, json.loads(out.read_text()))


def report(results: Results, measured: dict[str, Any]) -> None:
    tables, sick = measured["tables"], measured["sick"]
    scaled = measured["procedures"]["calls_s"] * tables / measured["sample"]
    all_tables = measured["procedures"]["cpu_s"] - measured["procedures"]["calls_s"] + scaled
    one_pass = measured["pass"]["cpu_s"]
    scaled_from = f"scaled from {measured['sample']} tables"
    says = f"{one_pass:.1f} s : {all_tables:.0f} s of CPU ({scaled_from}); then {measured['health']}"
    what = f"CPU of a pass over {tables:,} tables of which {sick} need work / the five procedures on each"
    results.find(Finding(what, one_pass / all_tables, at_most=SHARE_AT_MOST, says=says))
    nothing = measured["next"]
    says = f"{nothing['statements']} catalog statement, {nothing['loads']} metadata files, {nothing['manifests']} manifests"
    what = f"ms of CPU a table of the next pass over {tables:,}, which has nothing to do"
    results.find(Finding(what, nothing["plan_cpu_s"] * 1_000 / tables, at_most=NEXT_PASS_AT_MOST_MS, says=says))
    stored = measured["stored"]
    says = f"{stored['wall_s']:.1f} s by the clock; {stored['chosen']:,} of {stored['tables']:,} tables need work"
    what = f"s of CPU to plan {stored['tables']:,} tables from stored health"
    results.find(Finding(what, stored["cpu_s"], at_most=PLANNING_AT_MOST_S, says=says))


def _measure(out: Path, tables: int, sick: int, sample: int) -> None:
    # The JVM of a process outlives it by a moment. It becomes a child of this process then, whose children are counted.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    home = out.parent
    _fork(partial(_create, home, "fleet", tables, sick))
    _fork(partial(_create, home, "sample", sample, max(sample * sick // tables, 1)))
    measured: dict[str, Any] = {"tables": tables, "sick": sick, "sample": sample}
    for name, work in (("pass", _first_pass), ("next", _next_pass), ("procedures", _procedures), ("stored", _plan_stored)):
        measured[name] = _timed(home / f"{name}.json", partial(work, home))
        print(name, measured[name], flush=True)
    _fork(partial(_compare, home, out.with_name("health.json")))
    out.write_text(json.dumps(measured | json.loads(out.with_name("health.json").read_text())))


def _timed(noted: Path, work: Callable[[Path], None]) -> dict[str, Any]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _fork(partial(work, noted))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # What the process itself has noted, such as the CPU of a part of it, comes first.
    return {"cpu_s": cpu_s, "wall_s": time.monotonic() - began} | json.loads(noted.read_text())


def _lake(home: Path) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    return CatalogConfig.embedded(home / "lake")


def _create(home: Path, namespace: str, tables: int, sick: int) -> None:
    import pyarrow as pa

    catalog = _lake(home).load()
    catalog.create_namespace(namespace)
    rows = pa.table({"id": pa.array(range(ROWS)), "note": pa.array([f"note {number}" for number in range(ROWS)])})
    for number in range(tables):
        table = catalog.create_table(f"{namespace}.t{number}", schema=rows.schema)
        for _ in range(FILES if number < sick else 1):
            table.append(rows)


def _fleet(home: Path, catalog: Catalog) -> Fleet:
    """The fleet of the namespace ``fleet``. Each table was searched for orphan files in the last week, as on most nights."""
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.inventory.health_records import HealthRecords
    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.maintenance.fleet.fleet import Fleet
    from airflow_snowpack.maintenance.fleet.listing import list_catalog
    from airflow_snowpack.maintenance.fleet.passes import FleetPasses
    from airflow_snowpack.maintenance.fleet.planner import FleetPlanner
    from airflow_snowpack.maintenance.fleet.progress import PassWork
    from airflow_snowpack.maintenance.policies import Policies, Rule
    from airflow_snowpack.store import open_store

    lake, store = _lake(home), open_store(f"sqlite:///{home / 'snowpack.db'}")
    passes, jobs, broker = FleetPasses(store), Jobs(store), Broker(lambda: catalog)

    def listing() -> dict[TableName, str | None]:
        listed = list_catalog(broker, lake.name, lake.catalog_id, list)
        return {name: at for name, at in listed.items() if name.database == "fleet"}

    _note_searches(store, [TableName(lake.name, "fleet", f"t{number}", lake.catalog_id) for number in range(TABLES)])
    # The procedures rewrite whatever they find. So that both leave the same health, the pass rewrites a few manifests too.
    least = {"rewrite_data_files": {"small_files": 10}, "rewrite_manifests": {"small_manifests": 10}}
    policies = Policies([Rule("**", actions={action: {"thresholds": given} for action, given in least.items()})])
    histories = jobs.action_histories
    planner = FleetPlanner(passes, broker, HealthRecords(store), policies, list_tables=listing, histories=histories)
    return Fleet(lake.name, lake.catalog_id, passes, jobs, PassWork(passes, jobs), planner, lake.load)


def _note_searches(store: Store, tables: list[TableName]) -> None:
    from airflow_snowpack.store import insert
    from airflow_snowpack.store.tables.jobs import action_records

    at = datetime.now(UTC) - timedelta(days=1)
    counts = {"failures": 0, "runs": 1, "cost_factor": 1.0, "seconds_factor": 1.0, "files_factor": 1.0}
    searched = counts | {"action": "remove_orphan_files", "last_run_at": at, "last_success_at": at}
    rows = [searched | {"table_key": table.lock_key} for table in tables]
    store.execute(insert(action_records).on_conflict_do_nothing(), rows)


def _first_pass(home: Path, noted: Path) -> None:
    """Plan, maintain and report, with one Spark session."""
    from airflow_snowpack.jobs import JobWorker
    from airflow_snowpack.maintenance import SparkEngine
    from airflow_snowpack.maintenance.fleet import Budget
    from airflow_snowpack.spark import SparkConfig, local_session

    lake = _lake(home)
    fleet = _fleet(home, lake.load())
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="bench")
    began = time.process_time()
    planned = fleet.start("bench/1/plan", Budget(tables=TABLES), workers=1, holder="bench")
    plan_cpu_s = time.process_time() - began
    drain = fleet.drain(planned, "bench")
    engine = partial(SparkEngine, lambda: local_session(config), lake.load)
    drain.run(JobWorker(fleet.jobs, engine, "bench", catalog_id=lake.catalog_id, claim_next=drain.claim_next))
    done = fleet.report(planned)
    print("\n".join(done.lines()), flush=True)
    noted.write_text(json.dumps({"plan_cpu_s": plan_cpu_s, "counts": dict(done.counts)}))


def _next_pass(home: Path, noted: Path) -> None:
    """Plan and report the pass after it, and count what is read."""
    from airflow_snowpack.maintenance.fleet import Budget
    from benchmarks.counts import counting

    catalog = _lake(home).load()
    fleet = _fleet(home, catalog)
    with counting(fleet.passes.store.engine) as counted:
        began = time.process_time()
        planned = fleet.start("bench/2/plan", Budget(tables=TABLES), workers=1, holder="bench")
        done = fleet.report(planned)
        plan_cpu_s = time.process_time() - began
    print("\n".join(done.lines()), flush=True)
    counts = {"statements": counted.catalog_statements, "loads": counted.loads, "manifests": counted.manifests}
    noted.write_text(json.dumps({"plan_cpu_s": plan_cpu_s, "counts": dict(done.counts)} | counts))


def _procedures(home: Path, noted: Path) -> None:
    """Call the five procedures on each table of the sample, in one session."""
    import psutil

    from airflow_snowpack.spark import SparkConfig, local_session

    lake = _lake(home)
    session = local_session(SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="bench"))
    names = [".".join(name) for name in lake.load().list_tables("sample")]

    def cpu_s() -> float:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before = cpu_s()
    for name in names:
        for procedure in PROCEDURES:
            session.sql(f"CALL {lake.name}.system.{procedure.format(table=f'{lake.name}.{name}')}").collect()
    noted.write_text(json.dumps({"calls_s": cpu_s() - before}))
    session.stop()


def _plan_stored(home: Path, noted: Path) -> None:
    """Plan many tables whose health is stored, and of which no plan is known."""
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.inventory.health_records import HealthRecords
    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.maintenance.fleet import Budget
    from airflow_snowpack.maintenance.fleet.passes import FleetPasses
    from airflow_snowpack.maintenance.fleet.planner import FleetPlanner
    from airflow_snowpack.maintenance.policies import Policies
    from airflow_snowpack.store import open_store

    lake, store = _lake(home), open_store(f"sqlite:///{home / 'stored.db'}")
    records, passes, jobs = HealthRecords(store), FleetPasses(store), Jobs(store)
    known = HealthRecords(open_store(f"sqlite:///{home / 'snowpack.db'}"))
    (record,) = known.get([TableName(lake.name, "fleet", "t0", lake.catalog_id)]).values()
    assert record.health is not None
    listing: dict[TableName, str | None] = {}
    for number in range(STORED):
        name = TableName(lake.name, "stored", f"t{number}", lake.catalog_id)
        location = record.metadata_location.replace("00001-", f"{number:05}-")
        small = 200 if number % 20 == 0 else 1
        worst = [replace(each, data_files=small, small_files=small) for each in record.health.partitions]
        counts = {"data_files": small, "small_files": small, "partitions": tuple(worst)}
        records.put(name, replace(record.health, table=name.dotted, metadata_location=location, **counts))
        listing[name] = location
    _note_searches(store, list(listing))
    broker, policies = Broker(lake.load), Policies()
    histories = jobs.action_histories
    planner = FleetPlanner(passes, broker, records, policies, list_tables=lambda: listing, histories=histories)
    planning = passes.begin("bench/3/plan", lake.name, lake.catalog_id, Budget(tables=100), workers=4, holder="bench")
    began, began_cpu = time.monotonic(), time.process_time()
    planned = planner.plan(planning)
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
    needs_work = len(passes.entries(planned.pass_id))
    assert "read" not in planned.counts, planned.counts
    noted.write_text(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "tables": STORED, "chosen": needs_work}))


def _compare(home: Path, noted: Path) -> None:
    """Both ways leave the tables equally healthy: those that were sick, and those that were not."""
    from airflow_snowpack.iceberg.health import read_health, score

    catalog, now = _lake(home).load(), datetime.now(UTC)
    found: dict[str, Counter[tuple[int, ...]]] = {}
    for namespace in ("fleet", "sample"):
        tables = [catalog.load_table(name) for name in catalog.list_tables(namespace)]
        healths = [(len(table.snapshots()) > 1, read_health(table, now=now)) for table in tables]
        for name, was_sick in (("sick", True), ("healthy", False)):
            same = [of for sick, of in healths if sick is was_sick]
            found[f"{namespace}, {name}"] = Counter((score(of).total, of.data_files, of.delete_files) for of in same)
    print(found, flush=True)
    for name in ("sick", "healthy"):
        ours, theirs = found[f"fleet, {name}"], found[f"sample, {name}"]
        assert ours.keys() == theirs.keys(), found
    ((points, files, *_),) = found["fleet, sick"]
    noted.write_text(json.dumps({"health": f"score {points} and {files} file each, as after the procedures"}))


if __name__ == "__main__":
    _measure(Path(sys.argv[1]), *map(int, sys.argv[2:]))
