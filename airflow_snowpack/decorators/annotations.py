"""Whose class an annotation names, also where it is only text: imports for types alone are not there when a task runs.

    if TYPE_CHECKING:
        from pyarrow import Table

    def report(delays: Table | None): ...

    list(named_classes("Table | None", report))        # Named("pyarrow", "Table"), Named("builtins", "NoneType")

The invariant: a module is the one that Python finds, or else the one that an import in the function's own file names. Nothing is
guessed from the names of modules, except for the usual short names of Arrow, pandas, Polars, DuckDB and Ibis. A module
that cannot be found is ``None``.
"""

from __future__ import annotations

import ast
import functools
import linecache
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

EVERYBODYS = {"pa": "pyarrow", "pd": "pandas", "pl": "polars"} | {
    module: module for module in ("pyarrow", "pandas", "polars", "duckdb", "ibis")
}


@dataclass(frozen=True, slots=True)
class Named:
    """A class that an annotation names.

    :param module: ``None`` when it is not known.
    """

    module: str | None
    name: str


def named_classes(annotation: Any, function: Callable[..., Any]) -> Iterator[Named]:
    """All classes in an annotation of this function's, however deep."""
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
        yield Named(annotation.__module__, annotation.__name__)


def _in_text(text: str, function: Callable[..., Any]) -> Iterator[Named]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return  # text of another kind
    yield from _in_tree(tree, function)


def _in_tree(tree: ast.AST, function: Callable[..., Any]) -> Iterator[Named]:
    if isinstance(tree, ast.Name | ast.Attribute):
        yield from _of_path(ast.unparse(tree), function)
        return
    if isinstance(tree, ast.Constant):
        if isinstance(tree.value, str):
            yield from _in_text(tree.value, function)
        return
    inside: Sequence[ast.AST] = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.Subscript):
        outer = ast.unparse(tree.value).rpartition(".")[2]
        if outer == "Literal":
            return
        if outer == "Annotated" and isinstance(tree.slice, ast.Tuple):
            inside = tree.slice.elts[:1]
    for each in inside:
        yield from _in_tree(each, function)


def _of_path(path: str, function: Callable[..., Any]) -> Iterator[Named]:
    """What a name with dots leads to."""
    try:
        found = eval(path, getattr(function, "__globals__", {}))
    except Exception:  # noqa: BLE001 - whatever a module's attributes raise; most often it was imported for types alone
        yield _told_by_imports(path, function)
    else:
        # Not text again: a name of a type's text, such as ``T = "Table"``, leads nowhere.
        if not isinstance(found, str):
            yield from named_classes(found, function)


def _told_by_imports(path: str, function: Callable[..., Any]) -> Named:
    first, _, rest = path.partition(".")
    whole = _known(first, function)
    if whole is None:
        return Named(None, path.rpartition(".")[2])
    module, _, name = f"{whole}.{rest}".rstrip(".").rpartition(".")
    return Named(module, name)


def _known(name: str, function: Callable[..., Any]) -> str | None:
    code = getattr(function, "__code__", None)
    source = "".join(linecache.getlines(code.co_filename, getattr(function, "__globals__", None))) if code is not None else ""
    told = _told(source).get(name, set())
    return next(iter(told)) if len(told) == 1 else EVERYBODYS.get(name) if not told else None


@functools.lru_cache(maxsize=4)
def _told(source: str) -> dict[str, set[str]]:
    """What the imports and classes of a file call their names in full."""
    told: dict[str, set[str]] = {}
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return {}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            told.setdefault(node.name, set()).add(f"__main__.{node.name}")
        elif isinstance(node, ast.Import):
            for each in node.names:
                whole = each.name if each.asname else each.name.partition(".")[0]
                told.setdefault(each.asname or whole, set()).add(whole)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                told.setdefault(each.asname or each.name, set()).add(f"{'.' * node.level}{node.module or ''}.{each.name}")
    return told
