"""`make bench`: all measurements, their ratios against the targets, and a report kept beside this file.

python -m benchmarks                       # everything, about half an hour on a quiet machine
python -m benchmarks lifecycle --rounds 1  # one part; only a full run writes the report, or --keep
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks import (
    api,
    assess,
    builds_cleanup,
    builds_read,
    builds_write,
    estimates,
    fleet,
    health,
    interim_collector,
    interim_handover,
    lifecycle,
    maintain_table,
    parse,
    plugin_cost,
    pressure,
    queued,
    queued_airflow,
    queued_tables,
    schedules,
    schedules_latency,
    year,
)
from benchmarks.postgres import postgres_server
from benchmarks.results import Results, table
from benchmarks.year_fill import Sizes

HERE = Path(__file__).parent
PARTS = [
    *("lifecycle", "pressure", "queued", "queued_airflow", "queued_tables", "api", "schedules", "schedule_latency", "parse"),
    *("plugin", "maintain_table", "fleet", "health", "assess", "estimates"),
    *("builds_cleanup", "builds_read", "builds_write", "interim_handover", "interim_collector", "year"),
]
ON_POSTGRES = {"lifecycle", "pressure", "queued", "api", "schedules", "interim_handover", "interim_collector"}


def main() -> int:
    arguments = _arguments()
    results, began = Results(), time.monotonic()
    machine = _machine()
    if "year" in arguments.parts:
        _run_year(results, machine, arguments.database)
    if ON_POSTGRES & set(arguments.parts):
        with postgres_server() as server:
            machine["postgres"] = server.version()
            if "lifecycle" in arguments.parts:
                lifecycle.run(server, results, rounds=arguments.rounds, peers=not arguments.without_peers)
            if "pressure" in arguments.parts:
                pressure.run(server, results)
            if "queued" in arguments.parts:
                queued.run(server, results)
            if "api" in arguments.parts:
                api.run(server, results, rounds=arguments.rounds)
            if "schedules" in arguments.parts:
                schedules.run(server, results, rounds=arguments.rounds)
            if "interim_handover" in arguments.parts:
                interim_handover.run(server, results, rounds=max(arguments.rounds, 15))
            if "interim_collector" in arguments.parts:
                interim_collector.run(server, results, rounds=arguments.rounds)
    if "queued_airflow" in arguments.parts:
        queued_airflow.run(results, rounds=arguments.rounds)
    if "queued_tables" in arguments.parts:
        queued_tables.run(results)
    if "schedule_latency" in arguments.parts:
        schedules_latency.run(results, rounds=arguments.rounds)
    if "parse" in arguments.parts:
        parse.run(results, rounds=max(arguments.rounds, 5))
    if "plugin" in arguments.parts:
        plugin_cost.run(results, rounds=arguments.rounds)
    if "fleet" in arguments.parts:
        fleet.run(results)
    if "maintain_table" in arguments.parts:
        maintain_table.run(results, rounds=max(arguments.rounds, 6))
    if "estimates" in arguments.parts:
        estimates.run(results)
    if "health" in arguments.parts:
        health.run(results, rounds=max(arguments.rounds, 5))
    if "assess" in arguments.parts:
        assess.run(results, rounds=arguments.rounds)
    if "builds_cleanup" in arguments.parts:
        builds_cleanup.run(results, rounds=arguments.rounds)
    if "builds_read" in arguments.parts:
        builds_read.run(results, rounds=arguments.rounds)
    if "builds_write" in arguments.parts:
        builds_write.run(results, rounds=max(arguments.rounds, 5))
    machine["minutes"] = round((time.monotonic() - began) / 60, 1)
    print(f"\n{_summary(results)}")
    if set(arguments.parts) == set(PARTS) or arguments.keep:
        _write(results, machine)
    missed = [finding for finding in results.findings if finding.holds is False]
    return 1 if missed else 0


def _run_year(results: Results, machine: dict[str, object], database: str) -> None:
    if database == "postgres":
        with postgres_server() as server:
            year.run(results, open_database=lambda name: server.fresh_database(name, durable=False))
        return
    counted, sizes = year.run(results), Sizes()
    year.write_report(counted, sizes, {"commit": _commit(), **{name: machine[name] for name in ("at", "command", "python")}})


def _commit() -> str:
    """The commit that is measured, and whether files differ from it."""
    said = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=HERE)
    return said.stdout.strip() or "unknown"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure beside the peers.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=3, help="how often ours and the hand-written are repeated, in turns")
    parser.add_argument("--without-peers", action="store_true", help="leave the other queues out")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite", help="where the year has its store")
    parser.add_argument("--keep", action="store_true", help="write the report for a partial run as well")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    arguments.parts = arguments.parts or PARTS
    return arguments


def _machine() -> dict[str, object]:
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _summary(results: Results) -> str:
    rows = [(each.what, f"{each.value:.3g}", each.target, _verdict(each.holds), each.says) for each in results.findings]
    return table(["what", "value", "target", "holds", "figures"], rows)


def _verdict(holds: bool | None) -> str:
    return {True: "yes", False: "**no**", None: ""}[holds]


def _write(results: Results, machine: dict[str, object]) -> None:
    (HERE / "results.json").write_text(json.dumps({"machine": machine, **results.as_json()}, indent=1) + "\n")
    measurements = [
        (
            each.what,
            each.contender,
            ", ".join(f"{name} {value}" for name, value in (each.setting | each.extra).items()),
            f"{each.n:,}",
            f"{each.per_s:,.0f}",
            f"{each.cpu_us:,.0f}",
            f"{each.foreign_cpu:.2f}",
        )
        for each in results.measurements
    ]
    said = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in machine.items())
    columns = ["what", "contender", "setting", "jobs", "jobs/s", "CPU µs/job", "foreign cores"]
    report = (
        f"# Results\n\nWritten by `make bench`; `docs/benchmarks.md` explains how to read it.\n\n{said}\n\n"
        f"## Against the targets\n\n{_summary(results)}\n\n## Every measurement\n\n{table(columns, measurements)}\n"
    )
    (HERE / "RESULTS.md").write_text(report)


if __name__ == "__main__":
    sys.exit(main())
