"""What the lineage keeps of a build: the tables that it was made from, with their snapshots, and the dataset.

    record_operation(conn, build_operation(manifest, url="s3://lake/builds/orders", by="orders/manual__1/publish", at=now))

A run is one operation, however often the pointer comes back to it; it is recorded with the registry's own word that the run has
succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.builds.model import Manifest
from airflow_snowpack.builds.rows import build_id
from airflow_snowpack.store.operation import DatasetAt, Operation, OperationKind, TableAt


def build_operation(manifest: Manifest, *, url: str, by: str | None, at: datetime) -> Operation:
    """A run that was published, if only into history.

    :param by: who published it, by the name of a task instance or any other.
    """
    return Operation(
        OperationKind.BUILD,
        at,
        inputs=tables_among(manifest.sources),
        outputs=(DatasetAt(url, manifest.run_id),),
        task=TaskRef.parse(by),
        rows=manifest.rows,
        detail={"dataset": manifest.dataset, "shards": len(manifest.shards), "bytes": manifest.bytes},
        operation_id=f"build:{build_id(manifest.dataset, manifest.run_id)}",
    )


def tables_among(sources: Iterable[Mapping[str, Any]]) -> tuple[TableAt, ...]:
    """The tables among a build's sources, which may also be queries and functions."""
    found = []
    for source in sources:
        table, snapshot_id = source.get("table"), source.get("snapshot_id")
        if isinstance(table, str):
            found.append(TableAt(table, snapshot_id if isinstance(snapshot_id, int) else None))
    return tuple(found)
