"""The text of a decorated function runs as a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack.decorators.function_source import source_of
from airflow_snowpack.runners.errors import InvalidEntry

DAG_FILE = '''
from somewhere import pa, task, traced

def outer():
    @task.snowpack(
        runner="subprocess",
        # a comment between the arguments
        retries=2,
    )
    def indented(flights: pa.Table, n: int = 1) -> str:
        """A text
over several lines."""
        # a comment
        return """first
# no comment
        third"""

    return indented

@task.snowpack
@traced
def flat():
    return 7
'''


def functions(folder: Path) -> dict[str, Callable[..., Any]]:
    """The functions of a DAG file whose decorators leave them as they are."""
    file = folder / "dag_file.py"
    file.write_text(DAG_FILE)

    class Task:
        def snowpack(self, function: Any = None, **_: Any) -> Any:
            return function or (lambda decorated: decorated)

    names: dict[str, Any] = {"task": Task(), "pa": None, "traced": lambda function: function}
    exec(compile(DAG_FILE.replace("from somewhere import pa, task, traced", ""), str(file), "exec"), names)
    return {"indented": names["outer"](), "flat": names["flat"]}


def test_an_indented_function_keeps_its_texts_and_loses_its_task_decorator(tmp_path: Path) -> None:
    text = source_of(functions(tmp_path)["indented"])
    names: dict[str, Any] = {}
    exec(text, names)

    assert "@task" not in text
    assert names["indented"](None) == "first\n# no comment\n        third"
    assert names["indented"].__doc__ == "A text\nover several lines."
    assert names["indented"].__annotations__["flights"] == "pa.Table"


def test_a_decorator_that_is_not_of_a_task_is_kept(tmp_path: Path) -> None:
    text = source_of(functions(tmp_path)["flat"])

    assert "@task.snowpack" not in text
    assert "@traced\ndef flat():" in text


def test_a_function_without_a_file_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def typed(): ...", names)

    with pytest.raises(InvalidEntry, match="its source cannot be read"):
        source_of(names["typed"])
