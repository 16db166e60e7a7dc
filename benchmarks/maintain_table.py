"""``MaintainTableOperator`` beside the bare five ``CALL`` statements, in one warm session, on tables of 1,000 small files.

Both find the same table: each run makes it anew, in the same way. The bare statements carry the same arguments; what the
operator adds is the store, the lock, the heartbeat, reading metadata before and after, and that it plans before it removes
orphans: for that it looks whether another table of the catalog keeps files in the same place. So both run twice, with no other
table in the catalog and with many. Run in a process of its own: `python -m benchmarks.maintain_table results.json`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from benchmarks.parse import _environment
from benchmarks.results import Finding, Results
from benchmarks.year_fill import copy_table

COMMITS = 10
FILES_A_COMMIT = 100
ROWS_A_FILE = 50
OTHER_TABLES = (0, 2_000)
AT_MOST = 1.05
WARM_UPS = 4
REWRITE: dict[str, Any] = {"min_input_files": 2}


def run(results: Results, *, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        out = Path(home) / "seconds.json"
        command = [sys.executable, "-m", "benchmarks.maintain_table", str(out), str(rounds)]
        environment = _environment(Path(home)) | {"AIRFLOW__SNOWPACK__HOME": str(Path(home) / "lake")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The comparison on Spark failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        measured: dict[str, dict[str, list[float]]] = json.loads(out.read_text())
    files = COMMITS * FILES_A_COMMIT
    for others, seconds in measured.items():
        bare, operator = (statistics.median(seconds[name]) for name in ("bare", "operator"))
        says = f"{operator:.2f} s : {bare:.2f} s, medians of {rounds}; operator {seconds['operator']}, bare {seconds['bare']}"
        title = f"MaintainTableOperator / five CALLs, {files:,} files, {int(others):,} other tables in the catalog"
        results.find(Finding(title, operator / bare, at_most=AT_MOST, says=says))


def _measure(out: Path, rounds: int) -> None:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook

    session, catalog = IcebergSparkHook().session(), IcebergCatalogHook().catalog
    catalog.create_namespace("bench")
    measured: dict[int, dict[str, list[float]]] = {}
    ways = {"bare": _bare, "operator": _operator}
    for _ in range(WARM_UPS):  # the JVM's compiler, the operator's imports, the store's tables
        for way in ways.values():
            _timed(session, way, "warm_up")
    for others in OTHER_TABLES:
        _add_tables(catalog, others)
        _timed(session, _operator, "warm_up")  # it reads once where the new tables keep their files
        measured[others] = {name: [] for name in ways}
        for number in range(rounds):
            # In turns, and with the first place changing hands: what warms up or fills up must not favour one.
            for name in sorted(ways, reverse=bool(number % 2)):
                measured[others][name].append(_timed(session, ways[name], f"{name}_{number}"))
    out.write_text(json.dumps(measured))


def _add_tables(catalog: Any, number: int) -> None:
    """Empty tables in a namespace of their own."""
    if not number:
        return
    catalog.create_namespace("others")
    pattern = catalog.create_table("others.pattern", Schema(NestedField(1, "id", LongType(), required=False)))
    copy_table(catalog, pattern, [f"t{each}" for each in range(number)])


def _timed(session: Any, way: Any, name: str) -> float:
    from airflow_snowpack.iceberg import TableName

    table = TableName("lake", "bench", name)
    _make(session, table)
    began = time.monotonic()
    way(session, table)
    seconds = round(time.monotonic() - began, 3)
    session.sql(f"DROP TABLE {table.quoted} PURGE")
    return seconds


def _make(session: Any, table: Any) -> None:
    """A thousand small files in ten commits, and some deletes."""
    session.sql(f"DROP TABLE IF EXISTS {table.quoted}")
    session.sql(
        f"CREATE TABLE {table.quoted} (id BIGINT, note STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
    )
    rows = FILES_A_COMMIT * ROWS_A_FILE
    for number in range(COMMITS):
        # One file for each task of the range.
        session.sql(
            f"INSERT INTO {table.quoted} SELECT id, concat('note ', id) "
            f"FROM range({number * rows}, {(number + 1) * rows}, 1, {FILES_A_COMMIT})"
        )
    session.sql(f"DELETE FROM {table.quoted} WHERE id % 997 = 0")


def _bare(session: Any, table: Any) -> None:
    """What somebody would write by hand, in the same order and with the same arguments."""
    from airflow_snowpack.maintenance import Action, ExpireSnapshots, RemoveOrphanFiles, in_order, parse_options
    from airflow_snowpack.maintenance.procedures import procedure_call
    from airflow_snowpack.maintenance.rewrites import Rewrite

    now = datetime.now(UTC)
    for action in in_order(list(Action)):
        options = parse_options(action, REWRITE if action == Action.REWRITE_DATA_FILES else {})
        match options:
            case Rewrite():
                call = options.call(table)
            case ExpireSnapshots():
                ages = {"older_than": now - options.max_age, "retain_last": options.retain_last}
                call = procedure_call(table, action, {**ages, "stream_results": options.stream_results})
            case RemoveOrphanFiles():
                plan = options.planning_call(table, now=now, prefix_listing=False)
                sql = plan.sql.replace("dry_run => :dry_run", "dry_run => false")
                call = replace(plan, sql=sql, args=_without_dry_run(plan.args))
            case _:
                raise AssertionError(f"no call for {options!r}")
        session.sql(call.sql, args=dict(call.args)).collect()


def _without_dry_run(args: Any) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name != "dry_run"}


def _operator(session: Any, table: Any) -> None:
    from airflow.sdk import DAG

    from airflow_snowpack.operators import MaintainTableOperator
    from benchmarks.task_process import run_task

    with DAG("bench", schedule=None):
        task = MaintainTableOperator(
            task_id="maintain", table=f"{table.database}.{table.table}", options={"rewrite_data_files": REWRITE}
        )
    run_task(task)


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
