"""What our plugin costs a process of Airflow that does not serve the API: CPU to find and load plugins, with ours and without.

Tasks, the scheduler, the triggerer and the DAG processor load plugins as well. Each measurement is a fresh process; those with
and without ours alternate, each first in every other pair, and what counts is the median of the differences within the pairs.
Such a process takes seconds, most of them for other people's packages, which both need: these are imported before the clock
starts, so that a difference of milliseconds can be seen. What the import alone takes is measured beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.results import Finding, Results

AT_MOST_MS = 50.0
AT_MOST_IMPORT_MS = 10.0
LEAST_ROUNDS = 15
LOAD = """
import importlib, json, os, sys, time

for name in json.loads(os.environ.get("PRELOADED", "[]")):
    try:
        importlib.import_module(name)
    except Exception:
        pass  # a module that only another one can import: it is loaded with that one

if sys.version_info < (3, 12):
    import importlib_metadata as metadata  # as Airflow does
else:
    from importlib import metadata

began = time.process_time()
every, left_out = metadata.distributions, sys.argv[1]
# By the name of its folder: to read the metadata of every distribution costs more than what is measured.
metadata.distributions = lambda **how: (each for each in every(**how) if left_out not in each._path.name)

from airflow import plugins_manager

apps, _ = plugins_manager.get_fastapi_plugins()
told = {"seconds": time.process_time() - began, "apps": [app["name"] for app in apps], "modules": sorted(sys.modules)}
print(json.dumps(told))
"""
IMPORT = """
import time
from airflow import plugins_manager

began = time.process_time()
import airflow_snowpack.plugin
print(time.process_time() - began)
"""
OURS = "airflow_snowpack-"
NOBODY = "no_such_distribution-"


def run(results: Results, *, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        environment = _environment(home)
        environment["PRELOADED"] = json.dumps(_of_others(environment))
        pairs = [_pair(environment, ours_first=bool(number % 2)) for number in range(max(rounds, LEAST_ROUNDS))]
        alone = statistics.median(float(_said(environment, IMPORT)) * 1000 for _ in range(rounds))
    added = statistics.median(with_ours - without for without, with_ours in pairs)
    without, with_ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    what = "CPU (ms) that our plugin adds to a process that does not serve the API"
    results.find(Finding(what, added, at_most=AT_MOST_MS, says=f"{with_ours:.0f} ms : {without:.0f} ms, {len(pairs)} pairs"))
    results.find(Finding("CPU (ms) to import our plugin, when Airflow is there", alone, at_most=AT_MOST_IMPORT_MS))


def _of_others(environment: dict[str, str]) -> list[str]:
    """The modules that Airflow loads and that are neither its own nor ours."""
    loaded: list[str] = _load(environment, OURS)["modules"]
    return [name for name in loaded if name.partition(".")[0] not in ("__main__", "airflow", "airflow_snowpack")]


def _pair(environment: dict[str, str], *, ours_first: bool) -> tuple[float, float]:
    """Without ours, and with it, in milliseconds."""
    with_ours = _milliseconds(environment, NOBODY) if ours_first else None
    without = _milliseconds(environment, OURS)
    return without, with_ours or _milliseconds(environment, NOBODY)


def _milliseconds(environment: dict[str, str], left_out: str) -> float:
    told = _load(environment, left_out)
    if ("Snowpack" in told["apps"]) is (left_out == OURS):
        raise RuntimeError(f"The measurement is none: leaving out {left_out} gave the apps {told['apps']}.")
    return float(told["seconds"]) * 1000


def _load(environment: dict[str, str], left_out: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_said(environment, LOAD, left_out))
    return told


def _said(environment: dict[str, str], script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def _environment(home: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    return inherited | {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
