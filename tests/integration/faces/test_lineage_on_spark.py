"""What tasks leave in the lineage with real Spark: a maintained table, an interim table, a build of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.lineage.graph import Direction, Lineage
from airflow_snowpack.lineage.operation import DatasetAt, OperationKind, TableAt
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

SMALL = {"rewrite_data_files": {"min_input_files": 2, "rewrite_all": True}}


@pytest.fixture
def lineage(installation: Path) -> Iterator[Lineage]:
    with hooks.SnowpackHook() as hook:
        yield Lineage(hook.store())


def test_a_table_its_interim_table_and_the_build_of_it_hang_together(
    run_operator: Runner, lineage: Lineage, small_files: TableName, catalog: Catalog, tmp_path: Path
) -> None:
    from airflow.sdk import DAG, task

    def snapshot() -> TableAt:
        table = catalog.load_table(small_files.identifier)
        return TableAt(str(small_files), table.metadata.current_snapshot_id, table.location())

    before = snapshot()
    arguments: Any = {"actions": ["rewrite_data_files"], "options": SMALL}
    assert (
        run_operator(
            operators.MaintainTableOperator(task_id="maintain", table=small_files.dotted, **arguments), try_number=2
        ).state
        == "success"
    )

    (maintained,) = lineage.log.of_table(str(small_files)).items
    assert (maintained.inputs, maintained.outputs) == ((before,), (snapshot(),))
    assert maintained.task == TaskRef("guard", "run1", "maintain", -1, 2)

    def copied(spark: SparkSession) -> DataFrame:
        return spark.table(small_files.quoted).filter("id IS NOT NULL")

    with DAG("guard", schedule=None):
        called: Any = task.snowpack(copied)()
    made = run_operator(called.operator)
    assert made.state == "success", made.error
    (created,) = lineage.log.of_task("guard", "run1", "copied")
    assert (created.kind, created.inputs) == (OperationKind.CREATE, (snapshot(),))
    assert created.rows == made.xcom["rows"]

    query = f"SELECT id FROM {made.xcom['table']}"
    build = operators.ShardedBuildOperator(
        task_id="build", dataset="ids", sql=query, key="id", num_shards=1, url=str(tmp_path / "ids")
    )
    built = run_operator(build)
    assert built.state == "success", built.error
    graph = lineage.graph(str(small_files), Direction.DOWN)
    assert [(edge.source, edge.operation.kind) for edge in graph.edges] == [
        (str(small_files), OperationKind.CREATE),
        (made.xcom["table"], OperationKind.BUILD),
    ]
    (dataset,) = graph.edges[1].operation.outputs
    assert isinstance(dataset, DatasetAt)
    assert dataset.run_id == built.xcom["run_id"]
