"""The names of public classes are unique, so an import is clear without its module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "airflow_snowpack"


def test_no_two_public_classes_have_one_name() -> None:
    files = defaultdict[str, list[str]](list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(PACKAGE)))

    assert len(files) > 500
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}
