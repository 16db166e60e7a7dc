"""A few tables that came from each other, for the tests of the faces of lineage.

make_lineage(store, store.clock())

flights.raw ─┬─ interim.clean ─┬─ interim.by_day ──────┬─ flights.report ── s3://lake/builds/report
flights.planes ┘               └─ interim.by_carrier ──┘        ⟲ maintenance
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation
from airflow_snowpack.store import Store

RAW, PLANES = TableAt("lake.flights.raw", 101), TableAt("lake.flights.planes", 102)
CLEAN = TableAt("lake.interim.clean", 103)
BY_DAY, BY_CARRIER = TableAt("lake.interim.by_day", 104), TableAt("lake.interim.by_carrier", 105)
BEFORE, REPORT = TableAt("lake.flights.report", 106), TableAt("lake.flights.report", 5_577_006_791_947_779_410)
BUILT = DatasetAt("s3://lake/builds/report", "20261121T000000Z")
RUN = "manual__2026-11-21T06:00:00+00:00"
JOB = "a1b2c3d4e5f678901234567890abcdef"

DETAIL = {"action": "rewrite_data_files", "outcome": "succeeded", "message": "Compacted 87 files into 12"}


def make_lineage(store: Store, now: datetime) -> None:
    """Record the operations, ten minutes apart, the last one a minute ago."""

    def by(task_id: str, map_index: int = -1) -> TaskRef:
        return TaskRef("flights", RUN, task_id, map_index, 1)

    made = [
        Operation(OperationKind.INSERT, now, (), (RAW,), task=by("ingest"), rows=336_776),
        Operation(OperationKind.CREATE, now, (RAW, PLANES), (CLEAN,), task=by("clean"), rows=327_346),
        Operation(OperationKind.MAP, now, (CLEAN,), (BY_DAY,), task=by("by_day", 3), rows=365),
        Operation(OperationKind.REDUCE, now, (CLEAN,), (BY_CARRIER,), task=by("by_carrier"), rows=16, detail={"layers": [16, 1]}),
        Operation(OperationKind.INSERT, now, (BY_DAY, BY_CARRIER), (BEFORE,), task=by("report"), rows=381),
        Operation(OperationKind.BUILD, now, (BEFORE,), (BUILT,), task=by("build"), rows=381, detail={"dataset": "report"}),
        Operation(OperationKind.MAINTENANCE, now, (BEFORE,), (REPORT,), job_id=JOB, detail=DETAIL),
    ]  # fmt: skip
    for place, operation in enumerate(reversed(made)):
        assert note_operation(store, replace(operation, at=now - timedelta(minutes=1 + 10 * place), operation_id=f"{place:032x}"))
