"""Calls a user's function in a Spark task, and says what it had when it failed.

    call = FunctionCall.begin(shipped)
    made = call(row, "row 17")                       # raises FunctionFailed with the partition, the place, the row and the cause
    batch = call.batch(batches, rows, place_of)      # the same where rows do not fit the schema

The invariant: whatever a user's code raises leaves as a FunctionFailed with the user's own traceback as a note, from the line in
his function on. Spark cuts causes off where it shortens tracebacks, and lets notes stand.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from airflow_snowpack.interim.function_errors import FunctionError, FunctionFailed, cause_of
from airflow_snowpack.interim.row_batch import Misfit, RowBatches
from airflow_snowpack.interim.shipped_function import ShippedFunction
from airflow_snowpack.spark.archives import spare_archives

PACKAGE = f"{__package__}."
DEEPEST_FRAMES = 20
MISSING = "; a module that it imports must be installed, on the PYTHONPATH of Spark's Python, or sent by spark.submit.pyFiles"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function in one task.

    :param partition: Spark's number of the partition.
    """

    name: str
    partition: int
    function: Callable[[Any], Any]

    @classmethod
    def begin(cls, shipped: ShippedFunction) -> Self:
        """Unpack it, once for a task.

        :raises FunctionFailed: the task cannot load it, as when a module of it is not there.
        """
        spare_archives()
        partition = partition_id()
        try:
            return cls(shipped.name, partition, shipped.loaded())
        # Unpickling runs code of the user.
        except Exception as error:
            cause = cause_of(error) + (MISSING if isinstance(error, ImportError) else "")
            raise _with_traceback(FunctionFailed.at(shipped.name, partition, "its start", cause), error) from error

    def __call__(self, given: Any, place: object) -> Any:
        """What it gives.

        :param place: where in the partition that is, as its text says by the time of an error.
        """
        return self.guarded(place, given, self.function, given)

    def guarded(self, place: object, met: object, step: Callable[..., Any], *given: Any) -> Any:
        """What a part of its code gives.

        :param met: what to show of what it had; ``None`` for nothing.
        """
        try:
            return step(*given)
        except FunctionError:
            raise
        # Whatever a user's function raises.
        except Exception as error:
            raise _with_traceback(self.failed(place, cause_of(error), met), error) from error

    def batch(self, batches: RowBatches, rows: Sequence[Any], place_of: Callable[[int], str]) -> pa.RecordBatch:
        """What it gave, as a batch.

        :param place_of: the place of one of these rows.
        """
        try:
            return batches.of(rows)
        except Misfit as misfit:
            raise self.failed(place_of(misfit.number), misfit) from misfit

    def failed(self, place: object, cause: object, met: object = None) -> FunctionFailed:
        """The error to raise."""
        return FunctionFailed.at(self.name, self.partition, str(place), cause, met)


def _with_traceback(failed: FunctionFailed, error: BaseException) -> FunctionFailed:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(PACKAGE):
        trace = trace.tb_next
    # Pages of it would hide where it begins and ends.
    told = traceback.format_exception(type(error), error, trace, limit=-DEEPEST_FRAMES)
    failed.add_note("".join(told).strip())
    return failed


def partition_id() -> int:
    """Spark's number of the partition that this task works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()
