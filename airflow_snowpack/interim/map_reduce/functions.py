"""A user's function on its way to Spark's tasks, with the arguments that it gets beside the rows.

    shipped = ShippedFunction.of(clean, args=(3,), kwargs={"unit": "km"})      # here
    shipped.loaded()({"distance": 1400})                                      # in a task: clean({"distance": 1400}, 3, unit="km")

The invariant: **a function of a DAG file runs in a task.** Airflow loads DAG files under names that no other process can import,
and pickling goes by such a name as soon as the module has one. So a function's own module travels along by value, unless it is
installed where each Python of this environment finds it. Other modules that it imports must be there: installed, on the
``PYTHONPATH``, or sent by ``spark.submit.pyFiles``.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Self

import pyarrow as pa

from airflow_snowpack.interim.map_reduce.errors import FunctionError, FunctionFailed, UnusableFunction, cause_of
from airflow_snowpack.interim.map_reduce.rows import Misfit, RowBatches
from airflow_snowpack.spark.archives import spare_archives

THIS_PACKAGE = Path(__file__).parents[2]

# By value or by name is a setting of the whole process.
_lock = Lock()


@dataclass(frozen=True, slots=True)
class ShippedFunction:
    """A function and its further arguments.

    :param name: as errors call it.
    :param pickled: both, as bytes.
    """

    name: str
    pickled: bytes

    @classmethod
    def of(cls, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Self:
        """Pack it.

        :raises UnusableFunction: it is none, or something that it uses cannot be sent.
        """
        from pyspark import cloudpickle

        pickling: Any = cloudpickle  # it has no types
        name = name_of(fn)
        if not callable(fn):
            raise UnusableFunction(name, "it is no function.")
        with _lock, _by_value(_home_of(fn)):
            try:
                pickled: bytes = pickling.dumps((fn, tuple(args), dict(kwargs or {})))
            # Whatever a user's objects raise when they are pickled.
            except Exception as error:
                raise UnusableFunction(name, f"{cause_of(error)}.") from error
        return cls(name, pickled)

    def loaded(self) -> Callable[..., Any]:
        """The function, which takes the rows only."""
        from pyspark.cloudpickle import loads

        fn, args, kwargs = loads(self.pickled)

        def call(rows: Any) -> Any:
            return fn(rows, *args, **kwargs)

        return call


def name_of(fn: object) -> str:
    """What a function is called, without the module: that of a DAG file tells nobody anything."""
    if isinstance(fn, partial):
        return name_of(fn.func)
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


def _home_of(fn: object) -> ModuleType | None:
    """The module whose code is to travel along; ``None`` when tasks have it."""
    while isinstance(fn, partial):
        fn = fn.func
    module = sys.modules.get(getattr(fn, "__module__", None) or type(fn).__module__)
    if module is None or module.__name__ in ("builtins", "__main__"):
        return None
    file = getattr(module, "__file__", None)
    # Without a file it is built in, or was made at run time, which pickling sees for itself.
    return None if file is None or _is_installed(Path(file)) else module


def _is_installed(file: Path) -> bool:
    paths = sysconfig.get_paths()
    places = [Path(paths[kind]) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(file.is_relative_to(place) for place in (*places, THIS_PACKAGE))


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    from pyspark.cloudpickle import cloudpickle

    pickling: Any = cloudpickle  # it has no types
    if module is None or module.__name__ in pickling.list_registry_pickle_by_value():
        yield
        return
    pickling.register_pickle_by_value(module)
    try:
        yield
    finally:
        pickling.unregister_pickle_by_value(module)


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
