"""The classes that an annotation names, also where it is only text: imports under ``TYPE_CHECKING`` do not exist at run time.

    if TYPE_CHECKING:
        from pyarrow import Table

    def report(delays: Table | None): ...

    list(named_classes("Table | None", report))        # Named("pyarrow", "Table"), Named("builtins", "NoneType")

A module is the one that Python finds, or else the one that an import in the function's own file names. Only the usual short names
of Arrow, pandas, Polars, DuckDB and Ibis are assumed.
"""

from __future__ import annotations

import ast
import functools
import linecache
import typing
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USUAL_NAMES = {"pa": "pyarrow", "pd": "pandas", "pl": "polars"} | {
    module: module for module in ("pyarrow", "pandas", "polars", "duckdb", "ibis")
}


class Named(NamedTuple):
    """A class that an annotation names.

    :ivar module: ``None`` when it is unknown.
    """

    module: str | None
    name: str


def named_classes(annotation: Any, function: Callable[..., Any]) -> Iterator[Named]:
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
        yield Named(annotation.__module__, annotation.__name__)


def _in_text(text: str, function: Callable[..., Any]) -> Iterator[Named]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return  # the text is no annotation
    yield from _in_tree(tree, function)


def _in_tree(tree: ast.AST, function: Callable[..., Any]) -> Iterator[Named]:
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


def _of_path(path: str, function: Callable[..., Any]) -> Iterator[Named]:
    """Resolve a dotted name."""
    try:
        found = eval(path, getattr(function, "__globals__", {}))
    except Exception:  # noqa: BLE001 - whatever a module's attributes raise; usually the name is imported for types alone
        yield _imported(path, function)
    else:
        # Not text again: a name for a type's text, such as ``T = "Table"``, has no module.
        if not isinstance(found, str):
            yield from named_classes(found, function)


def _imported(path: str, function: Callable[..., Any]) -> Named:
    first, _, rest = path.partition(".")
    whole = _full_name(first, function)
    if whole is None:
        return Named(None, path.rpartition(".")[2])
    module, _, name = f"{whole}.{rest}".rstrip(".").rpartition(".")
    return Named(module, name)


def _full_name(name: str, function: Callable[..., Any]) -> str | None:
    code = getattr(function, "__code__", None)
    source = "".join(linecache.getlines(code.co_filename, getattr(function, "__globals__", None))) if code is not None else ""
    found = _full_names(source).get(name)
    if found is None:
        return USUAL_NAMES.get(name)
    return next(iter(found)) if len(found) == 1 else None


@functools.lru_cache(maxsize=4)
def _full_names(source: str) -> dict[str, set[str]]:
    """Return the full names behind the names that the imports and classes of a file define."""
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
