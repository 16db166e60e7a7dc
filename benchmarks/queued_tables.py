"""CPU of 50 small tables: through one warm worker, and in 50 mapped inline tasks, each with its own process and JVM.

A task runs in Airflow's task runner, in a fork of a process that has imported that, as an executor's worker has. The worker is
the task of ``snowpack_workers``. What the 50 tasks take that queue a job, leave for the triggerer and come back, is measured
apart: a DAG that submits its jobs in another way does not have them. The triggerer and the scheduler are not in the figures. Run
in a process of its own: `python -m benchmarks.queued_tables results.json 50`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.parse import _environment
from benchmarks.results import Finding, Results

TABLES = 50
FILES = 6
ROWS = 100
AT_LEAST = 5.0
DAG_FILE = """
from datetime import timedelta

from airflow.sdk import DAG
from airflow_snowpack.operators import MaintainTableOperator, RunQueuedJobsOperator

with DAG("bench", schedule=None) as dag:
    for execution in ("inline", "queued"):
        tables = [f"bench.{{execution}}_{{number}}" for number in range({tables})]
        MaintainTableOperator.partial(task_id=execution, execution=execution).expand(table=tables)
    RunQueuedJobsOperator(task_id="worker", run_for=timedelta(hours=9))
"""
PR_SET_CHILD_SUBREAPER = 36


def run(results: Results) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        out = Path(home) / "seconds.json"
        command = [sys.executable, "-m", "benchmarks.queued_tables", str(out), str(TABLES)]
        environment = _environment(Path(home)) | {"AIRFLOW__SNOWPACK__HOME": str(Path(home) / "lake")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The comparison on Spark failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        measured: dict[str, dict[str, float]] = json.loads(out.read_text())
    report(results, measured, TABLES)


def report(results: Results, measured: dict[str, dict[str, float]], tables: int) -> None:
    cpu = {name: of["cpu_s"] for name, of in measured.items()}
    inline, worker, tasks = cpu["inline"], cpu["worker"], cpu["submit"] + cpu["resume"]
    says = f"{inline:.0f} s : {worker:.0f} s of CPU; {measured['inline']['wall_s']:.0f} s : {measured['worker']['wall_s']:.0f} s"
    what = f"CPU of {tables} small tables: {tables} inline tasks / one warm worker"
    results.find(Finding(what, inline / worker, at_least=AT_LEAST, says=says))
    says = f"{inline:.0f} s : {worker:.0f} s and {tasks:.0f} s of the processes of the {tables} tasks that wait"
    results.find(Finding("the same with the tasks that queue the jobs and wait", inline / (worker + tasks), says=says))


def _measure(out: Path, tables: int) -> None:
    import airflow.sdk.execution_time.supervisor
    import airflow.sdk.execution_time.task_runner  # noqa: F401 - as in the worker of an executor

    # The JVM of a task outlives it by a moment. It becomes a child of this process then, whose children are counted.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    dag_file, waits = out.with_name("bench_dag.py"), out.with_name("waits.json")
    dag_file.write_text(DAG_FILE.format(tables=tables))
    _fork(lambda: _create_tables(tables))
    measured = {}
    measured["inline"] = _timed(lambda number: _run(dag_file, "inline", number), tables)
    measured["submit"] = _timed(lambda number: _submit(dag_file, number, waits), tables)
    measured["worker"] = _timed(lambda _number: _run(dag_file, "worker", -1), 1)
    measured["resume"] = _timed(lambda number: _resume(dag_file, number, waits), tables)
    _fork(lambda: _check(tables))
    out.write_text(json.dumps(measured))


def _timed(work: Callable[[int], None], times: int) -> dict[str, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for number in range(times):
        _fork(lambda number=number: work(number))  # type: ignore[misc]  # mypy takes the default for an argument
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu_s, "wall_s": time.monotonic() - began}


def _fork(work: Callable[[], None]) -> None:
    """Run in a process of its own, and wait until that and all that it has started are gone."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent ends when it sees the exit code
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"A task process ended with status {status}; see its output above.")
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _create_tables(tables: int) -> None:
    import pyarrow as pa

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook

    catalog = IcebergCatalogHook().catalog
    catalog.create_namespace("bench")
    rows = pa.table({"id": pa.array(range(ROWS)), "note": pa.array([f"note {number}" for number in range(ROWS)])})
    for name in ("inline", "queued"):
        for number in range(tables):
            table = catalog.create_table(f"bench.{name}_{number}", schema=rows.schema)
            for _ in range(FILES):
                table.append(rows)
    with SnowpackHook() as hook:
        hook.store()  # makes its tables


def _run(dag_file: Path, task_id: str, map_index: int, resume: Any = None) -> Any:
    from benchmarks.task_process import run_task

    return run_task(runpy.run_path(str(dag_file))["dag"].get_task(task_id), map_index=map_index, resume=resume)


def _submit(dag_file: Path, number: int, waits: Path) -> None:
    deferred = _run(dag_file, "queued", number)
    with waits.open("a") as lines:
        lines.write(json.dumps([deferred.next_method, deferred.next_kwargs]) + "\n")


def _resume(dag_file: Path, number: int, waits: Path) -> None:
    method, arguments = json.loads(waits.read_text().splitlines()[number])
    _run(dag_file, "queued", number, (method, {"event": {}, **arguments}))


def _check(tables: int) -> None:
    """Both ways have rewritten every table."""
    from airflow_snowpack.hooks.store import SnowpackHook

    with SnowpackHook() as hook:
        jobs = hook.jobs().list(limit=3 * tables)
    outcomes = {(job.inline, job.status.value, result.outcome.value) for job in jobs for result in job.results[:1]}
    assert outcomes == {(True, "completed", "succeeded"), (False, "completed", "succeeded")}, outcomes
    assert Counter(job.inline for job in jobs) == {True: tables, False: tables}


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
