"""No module of the package imports itself through others."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_no_import_circles() -> None:
    """Imports inside functions and imports for type checking count as well: readers have to follow them, too."""
    graph = grimp.build_graph("airflow_snowpack", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(f"import circle: {' <- '.join(circle.args[1])}")
