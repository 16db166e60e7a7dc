"""How a task's function receives its tables: what the annotation of each parameter requests.

    def report(flights, delays: pyarrow.Table, source: TableRef, airports: list[pandas.DataFrame]): ...

    Parameters.of(report).form_of("flights")     # Form.SPARK: without an annotation, a table arrives as a Spark DataFrame
    Parameters.of(report).form_of("delays")      # Form.ARROW: read without Spark

An annotation that is only text is read too, since imports under ``TYPE_CHECKING`` do not exist at run time: its module is the one
that Python finds, or else the one that an import in the function's file names. Only the usual short names of Arrow, pandas,
Polars, DuckDB and Ibis are assumed. An annotation that names rows in an unknown form is refused where the task is declared: it
would start Spark unnecessarily. A parameter called ``spark`` receives the session; callers of the task do not see it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.interim.forms import IN_MEMORY, Form, form_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


USUAL_NAMES = {"pa": "pyarrow", "pd": "pandas", "pl": "polars"} | {
    module: module for module in ("pyarrow", "pandas", "polars", "duckdb", "ibis")
}
SESSION = "spark"
REFERENCES = frozenset({"TableRef", "ViewRef"})
# In any library, classes of these names contain rows; "Table" may be something else.
FRAMES = frozenset({"DataFrame", "LazyFrame", "RecordBatch", "RecordBatchReader"})


class UnknownForm(TypeError):
    """A parameter is annotated with rows in a form that tables do not arrive in, or in an unknown form."""

    def __init__(self, function: Callable[..., Any], parameter: str, annotation: Any, named: NamedClass) -> None:
        whose = f"that is {named.module}.{named.name}" if named.module else f"no single import defines {named.name}"
        super().__init__(
            f"The parameter {parameter!r} of {function.__name__} is annotated {annotation!r:.200}, and {whose}. A table arrives "
            "as pa.Table (import pyarrow as pa), pd.DataFrame (import pandas as pd), pl.DataFrame (import polars as pl), "
            "duckdb.DuckDBPyRelation, ibis.Table, TableRef, or a DataFrame of pyspark.sql. Use one of these annotations, or none "
            "for a Spark DataFrame."
        )


class Parameters(NamedTuple):  # a tenth of a dataclass's cost when a DAG file is parsed
    """The parameters of a task's function, and whether one is called ``spark``."""

    signature: inspect.Signature
    takes_session: bool
    forms: Mapping[str, Form]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Parameters:
        """Return the parameters of a function, even if :func:`without_session` has wrapped it.

        :raises UnknownForm: an annotation names rows in a form that tables do not arrive in.
        """
        function = inspect.unwrap(function)
        signature = inspect.signature(function)
        forms = {name: _form(name, each.annotation, function) for name, each in signature.parameters.items()}
        return cls(signature, SESSION in signature.parameters, forms)

    def form_of(self, name: str) -> Form:
        """Return the form in which tables in this argument arrive."""
        return self.forms.get(name, Form.SPARK)

    def for_callers(self) -> inspect.Signature:
        """Return the signature without the session."""
        return self.signature.replace(parameters=[each for name, each in self.signature.parameters.items() if name != SESSION])

    def positional(self, count: int) -> list[str]:
        """Return the parameters of the first ``count`` positional arguments."""
        names: list[str] = []
        for name, parameter in self.for_callers().parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                return [*names, *[name] * (count - len(names))][:count]
            names.append(name)
        return names[:count]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Bind the arguments by parameter, ``*args`` and ``**kwargs`` by their names; raise ``TypeError`` if one does not fit."""
        return self.for_callers().bind(*args, **kwargs)


def without_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as Airflow sees it: without ``spark``, wherever it is among the parameters."""
    parameters = Parameters.of(function)
    if not parameters.takes_session:
        return function

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        session = kwargs.pop(SESSION)
        given = parameters.bind(args, kwargs)
        by_name = dict(given.arguments)
        # Pass by position until a parameter is left out, with the session at its position; pass the rest by name.
        positional, named = _split(parameters.signature, by_name | {SESSION: session})
        return function(*positional, **named)

    called.__signature__ = parameters.for_callers()  # type: ignore[attr-defined]  # what inspect.signature looks for first
    return called


def _split(signature: inspect.Signature, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    complete = True  # an omitted parameter shifts the positions after it
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


def _form(name: str, annotation: Any, function: Callable[..., Any]) -> Form:
    if annotation is inspect.Parameter.empty:
        return Form.SPARK
    known = {_form_of(each, name, annotation, function) for each in named_classes(annotation, function)}
    return next((form for form in (Form.REFERENCE, *IN_MEMORY) if form in known), Form.SPARK)


def _form_of(named: NamedClass, parameter: str, annotation: Any, function: Callable[..., Any]) -> Form:
    module = named.module or ""
    if named.name in REFERENCES:
        return Form.REFERENCE
    if (form := form_of(module, named.name)) is not None:
        return form
    if named.name == "DataFrame" and module.startswith("pyspark.sql"):
        return Form.SPARK
    if named.name in FRAMES or (named.name == "Table" and named.module is None):
        raise UnknownForm(function, parameter, annotation, named)
    return Form.SPARK


class NamedClass(NamedTuple):
    """A class that an annotation names; its module is ``None`` if it is unknown."""

    module: str | None
    name: str


def named_classes(annotation: Any, function: Callable[..., Any]) -> Iterator[NamedClass]:
    """Yield all classes in an annotation of this function, at any depth."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        yield from _in_text(annotation, function)
        return
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return  # its arguments are values
    inner = typing.get_args(annotation)
    for each in inner[:1] if origin is typing.Annotated else inner:
        yield from named_classes(each, function)
    if isinstance(annotation, type):
        yield NamedClass(annotation.__module__, annotation.__name__)


def _in_text(text: str, function: Callable[..., Any]) -> Iterator[NamedClass]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return  # the text is not an annotation
    yield from _in_tree(tree, function)


def _in_tree(tree: ast.AST, function: Callable[..., Any]) -> Iterator[NamedClass]:
    inside = list(ast.iter_child_nodes(tree))
    match tree:
        case ast.Name() | ast.Attribute():
            yield from _of_path(ast.unparse(tree), function)
            return
        case ast.Constant():
            if isinstance(tree.value, str):
                yield from _in_text(tree.value, function)
            return
        case ast.Subscript():
            outer = ast.unparse(tree.value).rpartition(".")[2]
            if outer == "Literal":
                return
            if outer == "Annotated" and isinstance(tree.slice, ast.Tuple):
                inside = [tree.slice.elts[0]]
    for each in inside:
        yield from _in_tree(each, function)


def _of_path(path: str, function: Callable[..., Any]) -> Iterator[NamedClass]:
    try:
        found = eval(path, getattr(function, "__globals__", {}))
    except Exception:  # noqa: BLE001 - whatever a module's attributes raise; usually the name is imported for types alone
        yield _imported(path, function)
    else:
        # Not text again: a name for the text of a type, such as ``T = "Table"``, has no module.
        if not isinstance(found, str):
            yield from named_classes(found, function)


def _imported(path: str, function: Callable[..., Any]) -> NamedClass:
    first, _, rest = path.partition(".")
    whole = _full_name(first, function)
    if whole is None:
        return NamedClass(None, path.rpartition(".")[2])
    module, _, name = f"{whole}.{rest}".rstrip(".").rpartition(".")
    return NamedClass(module, name)


def _full_name(name: str, function: Callable[..., Any]) -> str | None:
    code = getattr(function, "__code__", None)
    source = "".join(linecache.getlines(code.co_filename, getattr(function, "__globals__", None))) if code is not None else ""
    found = _full_names(source).get(name)
    if found is None:
        return USUAL_NAMES.get(name)
    return next(iter(found)) if len(found) == 1 else None


@functools.lru_cache(maxsize=4)
def _full_names(source: str) -> dict[str, set[str]]:
    """Return the full names of the names that the imports and classes of a file define."""
    names: dict[str, set[str]] = {}
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            names.setdefault(node.name, set()).add(f"__main__.{node.name}")
        elif isinstance(node, ast.Import):
            for each in node.names:
                whole = each.name if each.asname else each.name.partition(".")[0]
                names.setdefault(each.asname or whole, set()).add(whole)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                names.setdefault(each.asname or each.name, set()).add(f"{'.' * node.level}{node.module or ''}.{each.name}")
    return names
