"""What rows came from that are about to be written: for lineage, and as far as they tell it themselves.

sources_of(df)        # (TableAt("lake.shop.orders", 11, …), …): what the plan of a DataFrame reads
sources_of(pandas)    # ()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.frames import FrameKind, frame_kind
from airflow_snowpack.spark.plan_tables import tables_read
from airflow_snowpack.store.operation import TableAt

if TYPE_CHECKING:
    from collections.abc import Sequence


def sources_of(frame: Any) -> Sequence[TableAt]:
    """The Iceberg tables behind a DataFrame of Spark; rows in memory do not say where they are from."""
    if frame_kind(frame) is not FrameKind.SPARK:
        return ()
    return tuple(TableAt(table.name, table.snapshot_id, table.location) for table in tables_read(frame))
