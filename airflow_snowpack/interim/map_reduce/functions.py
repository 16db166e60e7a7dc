"""Send a user's function to Spark's tasks, call it there, and report its input when it fails.

    shipped = ShippedFunction.of(clean, args=(3,), kwargs={"unit": "km"})      # in the driver
    call = FunctionCall.begin(shipped)                                         # in a Spark task
    new = call(row, "row 17")                        # clean(row, 3, unit="km"); FunctionFailed has the partition, row and cause
    batch = call.batch(batches, rows, place_of)      # FunctionFailed for a row that does not fit the schema

Invariants: **a function of a DAG file runs in a task.** Airflow loads DAG files under module names that no other process can
import, and pickle refers to modules by name. So a function's module is sent by value, unless it is installed where each Python of
this environment finds it. Other modules that it imports must be available: installed, on the ``PYTHONPATH``, or sent by
``spark.submit.pyFiles``. Any error of a user's code becomes a FunctionFailed with the user's traceback as a note, because Spark
drops causes where it shortens tracebacks, but keeps notes.
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

from airflow_snowpack.arrow.rows import Misfit, RowBatches
from airflow_snowpack.interim.map_reduce.errors import FunctionError, FunctionFailed, UnusableFunction, cause_of
from airflow_snowpack.spark.session import spare_archives

THIS_PACKAGE = Path(__file__).parents[2]
OWN_MODULES = f"{__package__}."
MAX_TRACEBACK_FRAMES = 20
MISSING = "; a module that it imports must be installed, on the PYTHONPATH of Spark's Python, or sent by spark.submit.pyFiles"

# Pickling by value or by name is a setting of the whole process.
_lock = Lock()


@dataclass(frozen=True, slots=True)
class ShippedFunction:
    """A pickled function with its further arguments, and its name for error messages."""

    name: str
    pickled: bytes

    @classmethod
    def of(cls, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Self:
        """Pickle a function; raise :class:`UnusableFunction` if it is not callable, or uses something that cannot be sent."""
        from pyspark import cloudpickle

        pickling: Any = cloudpickle  # it has no types
        name = name_of(fn)
        if not callable(fn):
            raise UnusableFunction(name, "it is not callable")
        with _lock, _by_value(_module_to_send(fn)):
            try:
                pickled: bytes = pickling.dumps((fn, tuple(args), dict(kwargs or {})))
            # A user's objects may raise any error when they are pickled.
            except Exception as error:
                raise UnusableFunction(name, cause_of(error)) from error
        return cls(name, pickled)

    def loaded(self) -> Callable[..., Any]:
        """Return the function with its arguments bound: it takes only the rows."""
        from pyspark.cloudpickle import loads

        fn, args, kwargs = loads(self.pickled)
        return lambda rows: fn(rows, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function in a Spark task; ``partition`` is the number of Spark's partition."""

    name: str
    partition: int
    function: Callable[[Any], Any]

    @classmethod
    def begin(cls, shipped: ShippedFunction) -> Self:
        """Unpickle the function, once per task, or raise :class:`FunctionFailed`: a module may be missing, for example."""
        from pyspark import TaskContext

        spare_archives()
        context = TaskContext.get()
        assert context is not None, "this runs in a Spark task"
        partition = context.partitionId()
        try:
            return cls(shipped.name, partition, shipped.loaded())
        # Unpickling runs the user's code.
        except Exception as error:
            cause = cause_of(error) + (MISSING if isinstance(error, ImportError) else "")
            raise _with_traceback(FunctionFailed.at(shipped.name, partition, "its start", cause), error) from error

    def __call__(self, given: Any, place: object) -> Any:
        """Call the function; ``place`` is only formatted if there is an error."""
        return self.guarded(place, given, self.function, given)

    def guarded(self, place: object, shown: object, step: Callable[..., Any], *given: Any) -> Any:
        """Run a part of the user's code; ``shown`` is its input for the error message."""
        try:
            return step(*given)
        except FunctionError:
            raise
        # A user's function may raise any error.
        except Exception as error:
            raise _with_traceback(self.failed(place, cause_of(error), shown), error) from error

    def batch(self, batches: RowBatches, rows: Sequence[Any], place_of: Callable[[int], str]) -> pa.RecordBatch:
        """Return the rows that it returned as a batch; ``place_of`` returns the place of a row."""
        try:
            return batches.of(rows)
        except Misfit as misfit:
            raise self.failed(place_of(misfit.number), f"it returned {misfit}") from misfit

    def failed(self, place: object, cause: object, shown: object = None) -> FunctionFailed:
        return FunctionFailed.at(self.name, self.partition, str(place), cause, shown)


def name_of(fn: object) -> str:
    """Return a function's name without its module, which for a DAG file means nothing to users."""
    if isinstance(fn, partial):
        return name_of(fn.func)
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


def _module_to_send(fn: object) -> ModuleType | None:
    """Return the module whose code must be sent; ``None`` if tasks have it."""
    while isinstance(fn, partial):
        fn = fn.func
    module = sys.modules.get(getattr(fn, "__module__", None) or type(fn).__module__)
    if module is None or module.__name__ in ("builtins", "__main__"):
        return None
    file = getattr(module, "__file__", None)
    # A module without a file is built in, or was made at run time, which pickle handles.
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


def _with_traceback(failed: FunctionFailed, error: BaseException) -> FunctionFailed:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(OWN_MODULES):
        trace = trace.tb_next
    # Pages of it would hide where it begins and ends.
    lines = traceback.format_exception(type(error), error, trace, limit=-MAX_TRACEBACK_FRAMES)
    failed.add_note("".join(lines).strip())
    return failed
