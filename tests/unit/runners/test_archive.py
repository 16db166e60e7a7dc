"""The archive that runs in images needs nothing that an image may lack."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import airflow_snowpack
from airflow_snowpack.runners.archive import MODULES

PACKAGE = Path(airflow_snowpack.__file__).parent
# Imported where there are tables of these libraries.
OF_TABLES = {"numpy", "pandas", "pyarrow", "polars", "duckdb", "ibis"}


@pytest.mark.parametrize("module", MODULES)
def test_its_modules_import_the_standard_library_libraries_of_tables_and_each_other(module: str) -> None:
    tree = ast.parse((PACKAGE / f"{module.replace('.', '/')}.py").read_text())
    for_types = {each for node in ast.walk(tree) if isinstance(node, ast.If) and _is_for_types(node) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if node in for_types:
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            root, _, rest = name.partition(".")
            assert root in sys.stdlib_module_names or root in OF_TABLES or (root == PACKAGE.name and rest in MODULES), name


def _is_for_types(node: ast.If) -> bool:
    return ast.unparse(node.test) == "TYPE_CHECKING"
