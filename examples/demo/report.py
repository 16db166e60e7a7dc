"""What the demo shows at its end: the table before and after, the job as the store has it, and one line for machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from airflow_snowpack.jobs import HistoryEntry, Job
    from examples.demo.measure import Measurement

COUNTS = {
    "data_files": "data files",
    "small_files": "small files (below 384 MiB)",
    "delete_files": "delete files",
    "manifests": "manifests",
    "snapshots": "snapshots",
    "orphan_files": "orphan files (older than 3 days)",
}
ID_LENGTH = 8


def show_numbers(console: Console, before: Measurement, after: Measurement) -> None:
    """The before/after table."""
    table = Table(box=box.SIMPLE_HEAD, title="demo.flights", title_justify="left")
    table.add_column("")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    for name, label in COUNTS.items():
        table.add_row(label, f"{getattr(before, name):,}", f"{getattr(after, name):,}")
    table.add_row("bytes, live files", _mib(before.bytes), _mib(after.bytes))
    table.add_row("bytes, everything stored", _mib(before.stored_bytes), _mib(after.stored_bytes))
    table.add_row("one full scan (Spark, warm)", f"{before.scan_seconds:.2f} s", f"{after.scan_seconds:.2f} s", end_section=True)
    table.add_row("rows", f"{before.rows:,}", f"{after.rows:,}")
    table.add_row("checksum (PyIceberg)", before.checksum, after.checksum)
    console.print(table)


def show_job(console: Console, job: Job, history: Sequence[HistoryEntry]) -> None:
    """The job's life, as the store recorded it."""
    life = Table(box=box.SIMPLE_HEAD, title=f"job {job.job_id}: {job.status}, attempt {job.attempt}", title_justify="left")
    for heading in ("at (UTC)", "event", "attempt id"):
        life.add_column(heading, no_wrap=True)
    life.add_column("detail", overflow="fold")
    for entry in history:
        life.add_row(f"{entry.at:%H:%M:%S.%f}"[:-3], entry.event, (entry.attempt_id or "")[:ID_LENGTH], _detail(entry))
    console.print(life)


def summary(before: Measurement, after: Measurement, job: Job, *, days: int, seconds: float) -> str:
    """The numbers as one line of JSON; ``rows_unchanged`` compares the two measurements."""
    report: dict[str, Any] = {
        "demo": "airflow_snowpack",
        "days": days,
        "before": before.to_json(),
        "after": after.to_json(),
        "rows_unchanged": after.same_rows_as(before),
        "job": {
            "job_id": job.job_id,
            "status": job.status.value,
            "attempt": job.attempt,
            "actions": {
                result.action: {"outcome": result.outcome.value, "seconds": round(result.elapsed_seconds, 3), **result.metrics}
                for result in job.results
            },
        },
        "seconds": round(seconds, 1),
    }
    return json.dumps(report)


def _detail(entry: HistoryEntry) -> str:
    detail = entry.detail
    if entry.event == "action":
        return f"{detail['action']} {detail['outcome']} in {detail['elapsed_seconds']:.1f} s: {detail['message']}"
    return ", ".join(f"{key} {value}" for key, value in detail.items() if value and key != "actions")


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
