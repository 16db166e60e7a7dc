"""No module of the package imports itself through others, and what DAG files and Spark tasks import stays cheap."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest
from bounded import output_of

from airflow_snowpack import builds


def test_no_import_circles() -> None:
    """Imports inside functions and imports for type checking count as well: readers have to follow them, too."""
    graph = grimp.build_graph("airflow_snowpack", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(f"import circle: {' <- '.join(circle.args[1])}")


def test_every_name_of_the_room_of_builds_loads() -> None:
    assert all(getattr(builds, name).__name__ == name for name in builds.__all__)


HEAVY = {"airflow", "alembic", "pandas", "pendulum", "py4j", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy"}
# What reads and writes builds has Arrow, and no database.
WITHOUT_DATABASE = {"airflow", "alembic", "pyspark", "sqlalchemy"}
CHEAP = [
    ("import airflow_snowpack.iceberg", HEAVY),
    ("import airflow_snowpack.interim.refs", HEAVY),
    ("import airflow_snowpack.spark", HEAVY),
    ("from airflow_snowpack.spark import SparkConfig, SparkUnavailable, SparkWork, local_session", HEAVY),
    ("from airflow_snowpack.maintenance import Action, UnknownAction, in_order, parse_all_options", HEAVY),
    ("import airflow_snowpack.maintenance.options, airflow_snowpack.maintenance as room; room.in_order(room.Action)", HEAVY),
    ("import airflow_snowpack.builds.read.reader, airflow_snowpack.builds.read.spark_reader", WITHOUT_DATABASE),
    (
        "import airflow_snowpack.builds.write.spark_source, airflow_snowpack.builds.write.shard_pool",
        WITHOUT_DATABASE | {"fsspec"},
    ),
]
# Each in a process of its own, which has loaded nothing before.
IMPORT_EACH = f"""
import os, sys
for statement, heavy in {CHEAP!r}:
    if not os.fork():
        exec(statement)
        print(statement, sorted(heavy & sys.modules.keys()), flush=True)
        os._exit(0)
    os.wait()
"""


def test_dag_files_and_spark_tasks_do_not_pay_for_what_they_do_not_use() -> None:
    loaded = output_of(sys.executable, "-c", IMPORT_EACH).splitlines()

    assert loaded == [f"{statement} []" for statement, _ in CHEAP]
