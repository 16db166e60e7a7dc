"""What counts as rows: a DataFrame of Spark, classic or Connect, one of pandas, or a table of Arrow.

    frame_kind(value)        # FrameKind.SPARK, FrameKind.PANDAS, FrameKind.ARROW, or None for an ordinary value
    as_arrow(value)          # a pyarrow.Table of what pandas or Arrow holds

The invariant: nobody pays for a library that he does not use. A value is known by the names of its classes, and whoever made it
has imported what it is made of.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.frame_errors import UnwritableFrame

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_CLASSES = frozenset({"Table", "RecordBatch", "RecordBatchReader"})


class FrameKind(StrEnum):
    """What rows are held in."""

    SPARK = "Spark"
    PANDAS = "pandas"
    ARROW = "Arrow"


def frame_kind(value: object) -> FrameKind | None:
    """``None``: it holds no rows."""
    for known in type(value).__mro__:
        kind = kind_named(known.__module__, known.__name__)
        if kind is not None:
            return kind
    return None


def kind_named(module: str, name: str) -> FrameKind | None:
    """What a class of this name holds."""
    if name == "DataFrame" and module.startswith("pyspark.sql"):
        return FrameKind.SPARK
    if name == "DataFrame" and module.partition(".")[0] == "pandas":
        return FrameKind.PANDAS
    if name in ARROW_CLASSES and module.partition(".")[0] == "pyarrow":
        return FrameKind.ARROW
    return None


def as_arrow(frame: Any) -> pa.Table:
    """What pandas or Arrow holds, in types that Iceberg has: it has no nanoseconds, and no numbers without a sign.

    An index of pandas that has a name becomes a column; one without is a numbering, and is left out.

    :raises UnwritableFrame: Arrow cannot hold it, or those types cannot; or a column has no name.
    """
    import pyarrow as pa

    try:
        return _table_of(frame)
    except pa.ArrowException as problem:
        raise UnwritableFrame(problem) from problem


def _table_of(frame: Any) -> pa.Table:
    import pyarrow as pa

    if frame_kind(frame) is FrameKind.PANDAS:
        named = any(name is not None for name in frame.index.names)
        return pa.Table.from_pandas(frame, preserve_index=named).replace_schema_metadata(None)
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    return pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
