"""How a function wants its tables: what the annotation of each of its parameters says.

    def report(flights, delays: pyarrow.Table, source: TableRef, airports: list[pandas.DataFrame]): ...

    Parameters.of(report).form_of("flights")     # Form.SPARK: without a word, a table arrives as a DataFrame of Spark
    Parameters.of(report).form_of("delays")      # Form.ARROW: read without Spark

An annotation is often only text: imports for types alone are not there when the task runs. Then the names in the text decide. A
parameter called ``spark`` gets the session and is no parameter for who calls the task.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SESSION = "spark"
REFERENCES = frozenset({"TableRef", "ViewRef"})
NAMES = re.compile(r"[A-Za-z_][\w.]*")


class Form(StrEnum):
    """What a table arrives as."""

    SPARK = "spark"
    ARROW = "arrow"
    PANDAS = "pandas"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a task's function.

    :ivar takes_session: it has one called ``spark``.
    """

    signature: inspect.Signature
    takes_session: bool
    forms: Mapping[str, Form]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Parameters:
        """Those of a function, or of what :func:`without_session` made of it."""
        function = inspect.unwrap(function)
        signature = inspect.signature(function)
        forms = {name: _form(each.annotation, function) for name, each in signature.parameters.items()}
        return cls(signature, SESSION in signature.parameters, forms)

    def form_of(self, name: str) -> Form:
        """What tables in this argument arrive as."""
        return self.forms.get(name, Form.SPARK)

    def for_callers(self) -> inspect.Signature:
        """The signature without the session."""
        return self.signature.replace(parameters=[each for name, each in self.signature.parameters.items() if name != SESSION])

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments by the names of their parameters, ``*args`` and ``**kwargs`` under their own.

        :raises TypeError: they do not fit the function.
        """
        return self.for_callers().bind(*args, **kwargs)


def without_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as Airflow is to see it: without ``spark``, which nobody who calls the task gives.

    Wherever ``spark`` stands among the parameters, it comes by name, and the others are what they are without it.
    """
    parameters = Parameters.of(function)
    if not parameters.takes_session:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        session = kwargs.pop(SESSION)
        given = parameters.bind(args, kwargs)
        by_name = dict(given.arguments)
        # All by position up to the last that cannot be given by name; the session among them where it stands.
        positional, named = _split(parameters.signature, by_name | {SESSION: session})
        return function(*positional, **named)

    called.__signature__ = parameters.for_callers()  # type: ignore[attr-defined]  # what inspect.signature looks for first
    return called


def _split(signature: inspect.Signature, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    complete = True  # no parameter was left to its default so far: from then on, positions would shift
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += given.get(name, ())
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= given.get(name, {})
        elif name not in given:
            complete = False
        elif complete and parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(given[name])
        else:
            named[name] = given[name]
    return positional, named


def _form(annotation: Any, function: Callable[..., Any]) -> Form:
    if annotation is inspect.Parameter.empty:
        return Form.SPARK
    known = {_form_named(module, name) for module, name in _names(_evaluated(annotation, function))}
    return next((form for form in (Form.REFERENCE, Form.ARROW, Form.PANDAS) if form in known), Form.SPARK)


def _form_named(module: str, name: str) -> Form:
    root = module.partition(".")[0]
    if name in REFERENCES:
        return Form.REFERENCE
    if name == "Table" and root in ("pyarrow", "pa"):
        return Form.ARROW
    if name == "DataFrame" and root in ("pandas", "pd"):
        return Form.PANDAS
    return Form.SPARK


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(function, "__globals__", {}))
    except Exception:  # noqa: BLE001 - such as a name that only a type checker imports: its text says enough
        return annotation


def _names(annotation: Any) -> Iterator[tuple[str, str]]:
    """The module and the name of every class that an annotation mentions."""
    if isinstance(annotation, str):
        for found in NAMES.findall(annotation):
            module, _, name = found.rpartition(".")
            yield module, name
        return
    for inner in typing.get_args(annotation):
        yield from _names(inner)
    if isinstance(annotation, type):
        yield annotation.__module__, annotation.__name__
