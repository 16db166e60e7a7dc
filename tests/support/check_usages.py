"""Fails on a usage in a module's docstring that the code no longer supports: ``python tests/support/check_usages.py``.

A usage is the indented block of the docstring. Each call in it is bound to the signature of what it names:

    findings(importlib.import_module("airflow_snowpack.durations"))     # [] or ["…: parse(1, 2): too many …"]

Names are looked up in the module, then in its package. A variable has the class that it was built from, or the class of its own
name (``jobs`` is a ``Jobs``). Calls of anything else, of values from outside of the package for example, are not checked.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "airflow_snowpack"
LEFT_OUT = re.compile(r"migrations|__main__")
_ELLIPSIS_ARGUMENT = object()


class Usage(ast.NodeVisitor):
    """Checks the calls of one usage, line by line, with the classes of the variables that it has assigned so far."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.found: list[str] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.names[node.targets[0].id] = _Instance(self.result(node.value))

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if isinstance(item.optional_vars, ast.Name):
                self.names[item.optional_vars.id] = _Instance(self.entered(self.result(item.context_expr)))
        for statement in node.body:
            self.visit(statement)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self.target(node.func)
        if called is not None and (problem := _binding_problem(called, node)):
            self.found.append(f"{ast.unparse(node)}: {problem}")

    def target(self, node: ast.expr) -> Any:
        """Return what an expression names, or None when that is not known."""
        if isinstance(node, ast.Name):
            named = self.names.get(node.id)
            return None if isinstance(named, _Instance) else named
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else _Instance(self.result(node.value))
        of = owner.of if isinstance(owner, _Instance) else owner
        if not isinstance(of, type | ModuleType) or not getattr(of, "__module__", of.__name__).startswith(PACKAGE):
            return None
        found = inspect.getattr_static(of, node.attr, None)
        if found is None and not _has_field(of, node.attr):
            self.found.append(f"{ast.unparse(node)}: {of.__name__} has no {node.attr}")
        return _Method(found) if isinstance(owner, _Instance) and inspect.isfunction(found) else getattr(of, node.attr, None)

    def result(self, node: ast.expr) -> Any:
        """Return the class of the value that a call makes, or None when that is not known."""
        if isinstance(node, ast.Name) and isinstance(named := self.names.get(node.id), _Instance):
            return named.of
        if not isinstance(node, ast.Call):
            return None
        quiet = Usage(dict(self.names))
        called = quiet.target(node.func)
        if isinstance(called, type):
            return called
        return _returned(called.function if isinstance(called, _Method) else called)

    @staticmethod
    def entered(of: Any) -> Any:
        return _returned(getattr(of, "__enter__", None), of) if isinstance(of, type) else None


class _Instance:
    def __init__(self, of: Any) -> None:
        self.of = of


class _Method:
    def __init__(self, function: Any) -> None:
        self.function = function


def _has_field(of: Any, name: str) -> bool:
    if not isinstance(of, type):
        return False
    fields = {field for owner in of.__mro__ for field in getattr(owner, "__annotations__", {})}
    return name in fields or bool(re.search(rf"\bself\.{name}\b", inspect.getsource(of))) or hasattr(of, "__getattr__")


def _returned(function: Any, owner: Any = None) -> Any:
    try:
        returned = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that only the type checker imports; what they make is not known here
        return None
    if returned is typing.Self:
        return owner
    return returned if isinstance(returned, type) else None


def _binding_problem(called: Any, node: ast.Call) -> str | None:
    function = called.function if isinstance(called, _Method) else called
    if not getattr(function, "__module__", "").startswith(PACKAGE) or isinstance(function, ModuleType):
        return None
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(word.arg is None for word in node.keywords):
        return None
    skipped = [argument for argument in node.args if isinstance(argument, ast.Constant) and argument.value is ...]
    arguments = [_ELLIPSIS_ARGUMENT] * (len(node.args) - len(skipped) + isinstance(called, _Method))
    words = {str(word.arg): _ELLIPSIS_ARGUMENT for word in node.keywords}
    signature = inspect.signature(function)
    try:
        # A usage that ends in … leaves arguments out on purpose.
        (signature.bind_partial if skipped else signature.bind)(*arguments, **words)
    except TypeError as error:
        return str(error)
    return None


def usages(module: ModuleType) -> list[str]:
    """Return the indented blocks of a module's docstring that are Python."""
    blocks = re.findall(r"(?:^(?: {4}.*)?\n)+", (module.__doc__ or "") + "\n", re.MULTILINE)
    return [block for block in map(textwrap.dedent, blocks) if block.strip() and _is_python(block)]


def _is_python(block: str) -> bool:
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(block)))
    except SyntaxError:
        return False


def findings(module: ModuleType) -> list[str]:
    """Return what a module's usages call and the code does not have."""
    parent = importlib.import_module(module.__name__.rpartition(".")[0]) if "." in module.__name__ else module
    known = {name: getattr(place, name) for place in (parent, module) for name in (*dir(place), *getattr(place, "__all__", ()))}
    # A package lists its modules by name; in a usage that name is a variable.
    known = {name: named for name, named in known.items() if not isinstance(named, ModuleType)}
    instances = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): _Instance(of) for name, of in known.items() if isinstance(of, type)
    }
    found = []
    for usage in usages(module):
        checked = Usage({**instances, **known})
        checked.visit(ast.parse(usage))
        found += [f"{module.__name__}: {line}" for line in checked.found]
    return found


def main() -> int:
    """Print the findings; 1 when there are any."""
    root = Path(__file__).parents[2]
    paths = sorted(path.relative_to(root).with_suffix("") for path in (root / PACKAGE).rglob("*.py"))
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if not LEFT_OUT.search(str(path))]
    found = [line for name in names for line in findings(importlib.import_module(name))]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
