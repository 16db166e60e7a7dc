"""The source of a decorated function, as a module that defines it where its DAG file does not exist.

    source_of(score)
    # from __future__ import annotations
    # if True:
    #     def score(flights: pa.Table) -> pa.Table:
    #         ...

The lines of the file are unchanged, indentation included: dedenting would change multi-line strings. Annotations are not
evaluated: what they name may exist only in the DAG file.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any

from airflow_snowpack.runners.errors import InvalidEntry

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "from __future__ import annotations\n\n"
# Decorators of tasks, by their last name: they have a meaning for Airflow only.
OF_TASKS = frozenset({"snowpack", "setup", "teardown", "run_if", "skip_if"})


def check_function(function: Callable[..., Any]) -> None:
    """:raises InvalidEntry: the function cannot run on its own."""
    name = getattr(function, "__name__", type(function).__name__)
    if not inspect.isfunction(function) or not name.isidentifier():
        raise InvalidEntry("function", name, "an entry is a function with a name, defined with def")
    if around := function.__code__.co_freevars:
        problem = f"it uses {', '.join(around)} of the function around it, which does not exist where the entry runs"
        raise InvalidEntry("function", name, f"{problem}; pass the value as an argument")


def source_of(function: Callable[..., Any]) -> str:
    """Return a module that defines the function, without task decorators; raise :class:`InvalidEntry` without its source."""
    try:
        lines, _ = inspect.getsourcelines(function)
        text = "".join(lines)
        is_indented = text[:1].isspace()
        tree = ast.parse(f"if True:\n{text}" if is_indented else text)
    except (OSError, SyntaxError) as problem:
        name = getattr(function, "__name__", str(function))
        raise InvalidEntry("function", name, f"its source cannot be read: {problem}") from problem
    defined = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    before = 1 if is_indented else 0
    dropped = {
        number - before
        for decorator in defined.decorator_list
        if _last_name(decorator) in OF_TASKS
        for number in range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1)
    }
    kept = "".join(line for number, line in enumerate(lines, start=1) if number not in dropped)
    return f"{HEAD}if True:\n{kept}" if is_indented else f"{HEAD}{kept}"


def _last_name(decorator: ast.expr) -> str:
    """Return ``snowpack`` for ``@task.snowpack`` and for ``@task.snowpack(…)``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]
