"""One call of a task's function: references in the arguments become rows, and rows in the result become references.

    call = TableCall(handover, function, session)
    call.receive(op_args, op_kwargs)
    xcom = call.made({"ti": ti}, run)

Values without references and rows are not changed. Spark starts only for a function that needs the session or a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.decorators.parameters import SESSION, Parameters
from airflow_snowpack.interim.errors import UnusableOutput
from airflow_snowpack.interim.forms import Form, as_arrow, frame_kind, in_form, is_reader
from airflow_snowpack.interim.handover import TableHandover
from airflow_snowpack.interim.names import DEFAULT_OUTPUT
from airflow_snowpack.interim.refs import Ref, find_refs, is_ref, read_ref, replace_refs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableCall:
    """A function, its arguments, and the handover that they pass through; ``session`` starts Spark."""

    def __init__(self, handover: TableHandover, function: Callable[..., Any], session: Callable[[], SparkSession]) -> None:
        self._handover = handover
        self._parameters = Parameters.of(function)
        self._start = session
        self._session: SparkSession | None = None
        self._args: list[Any] = []
        self._kwargs: dict[str, Any] = {}
        self._arrived: list[tuple[Any, Ref]] = []  # frames that cannot be changed, and the references that they were read from
        self._read_once: list[tuple[Any, Any]] = []  # readers that were returned, and their rows

    def receive(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Set the arguments, and pin their tables; raise :class:`InterimTableGone` or ``InterimTableNotFound`` if one is gone."""
        self._args = [self._handover.resolved(value) for value in args]
        self._kwargs = {name: self._handover.resolved(value) for name, value in kwargs.items()}
        self._handover.receive(find_refs([self._args, self._kwargs]))

    def made(self, around: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """Call the function, also with arguments from Airflow's context (``around``), and return its XCom."""
        if not self._needs_session():
            return self._called(around, call)
        self._session = session = self._start()
        return self._handover.run(session, lambda: self._called(around, call))

    def _called(self, around: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        args = [
            self._read(value, name) for value, name in zip(self._args, self._parameters.positional(len(self._args)), strict=True)
        ]
        kwargs = {name: self._read(value, name) for name, value in self._kwargs.items()}
        if self._parameters.takes_session:
            kwargs[SESSION] = self._session
        returned = call(*args, **around, **kwargs)
        self._check(returned)
        return self._with_refs(returned, ())

    def _needs_session(self) -> bool:
        if self._parameters.takes_session:
            return True
        arguments = [*zip(self._names(), self._args, strict=True), *self._kwargs.items()]
        return any(self._parameters.form_of(name) is Form.SPARK and find_refs(value) for name, value in arguments)

    def _names(self) -> list[str]:
        return self._parameters.positional(len(self._args))

    def _read(self, value: Any, name: str) -> Any:
        if not find_refs(value):
            return value
        form = self._parameters.form_of(name)
        return replace_refs(value, lambda ref: self._in_form(ref, form))

    def _in_form(self, ref: Ref, form: Form) -> Any:
        if form is Form.REFERENCE:
            return self._handover.recorded(ref)
        if form is Form.SPARK:
            assert self._session is not None, "a call that needs a session has one"
            frame: Any = self._handover.read(ref, self._session)
        else:
            frame = in_form(self._handover.read_arrow(ref), form)
        if form not in (Form.SPARK, Form.ARROW):
            return frame  # the function may have changed the frame before returning it
        self._arrived.append((frame, ref))
        return frame

    def _check(self, returned: Any) -> None:
        """Refuse values that cannot be passed to other tasks, before anything is written."""
        for hiding in _unsearched_containers(returned):
            problem = "the tables in it cannot be passed to other tasks; return a dictionary, a list or a tuple instead"
            raise UnusableOutput("output", hiding.__name__, problem)
        name = self._handover.options.name
        new = sum(1 for frame in _frames(returned) if self._read_from(frame) is None)
        if name is not None and new != 1:
            raise UnusableOutput("name", name, f"the task returned {new} new tables, and a name is for one")

    def _with_refs(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return the value with references instead of rows."""
        if is_ref(value):
            return self._passed_on(read_ref(value))
        if frame_kind(value) is not None:
            ref = self._read_from(value)
            if ref is not None:
                return self._passed_on(ref)
            return self._handover.give(self._rows(value), ".".join(path) or DEFAULT_OUTPUT).to_json()
        if not any(True for _ in _frames(value)) and not find_refs(value):
            return value
        if isinstance(value, Mapping):
            return {key: self._with_refs(item, (*path, str(key))) for key, item in value.items()}
        return [self._with_refs(item, (*path, str(place))) for place, item in enumerate(value)]

    def _rows(self, frame: Any) -> Any:
        """Return the rows of a reader in memory: it can be read once, but returned twice. Other frames stay unchanged."""
        if not is_reader(frame):
            return frame
        if (rows := next((rows for reader, rows in self._read_once if reader is frame), None)) is None:
            self._read_once.append((frame, rows := as_arrow(frame)))
        return rows

    def _passed_on(self, ref: Ref) -> dict[str, Any]:
        self._handover.pass_on(ref)
        return self._handover.recorded(ref).to_json()

    def _read_from(self, frame: Any) -> Ref | None:
        """Return the reference of a frame that is returned as it arrived."""
        return next((ref for arrived, ref in self._arrived if arrived is frame), None)


def _frames(value: Any) -> Iterator[Any]:
    """Yield all frames in a value, at any depth of dictionaries, lists and tuples."""
    if frame_kind(value) is not None:
        yield value
    else:
        for item in _items(value):
            yield from _frames(item)


def _unsearched_containers(value: Any) -> Iterator[type]:
    """Yield the classes of containers that contain frames or references and are not searched."""
    if is_dataclass(value) and not isinstance(value, type) and not is_ref(value):
        hidden: Iterable[Any] = (getattr(value, field.name) for field in fields(value))
    elif isinstance(value, set | frozenset):
        hidden = value
    else:
        for item in _items(value):
            yield from _unsearched_containers(item)
        return
    if any(find_refs(item) or any(True for _ in _frames(item)) for item in hidden):
        yield type(value)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
