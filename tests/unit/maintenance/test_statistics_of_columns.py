"""Which columns have statistics, read from a table's metadata."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.table.statistics import BlobMetadata, StatisticsFile

from airflow_snowpack.iceberg import MetadataReader
from airflow_snowpack.maintenance import PlanningContext, parse_options, plan_action

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def with_statistics(table: Table, *fields: int) -> Table:
    snapshot = table.refresh().metadata.current_snapshot_id
    assert snapshot is not None
    of = {"snapshot_id": snapshot, "sequence_number": 1, "type": "apache-datasketches-theta-v1"}
    blobs = [BlobMetadata(fields=[field], properties={}, **of) for field in fields]
    with table.update_statistics() as update:
        update.set_statistics(
            StatisticsFile(
                snapshot_id=snapshot,
                statistics_path="x.puffin",
                file_size_in_bytes=1,
                file_footer_size_in_bytes=1,
                blob_metadata=blobs,
            )
        )
    return table.refresh()


def test_statistics_of_some_columns_are_not_those_of_all(flights: Callable[..., Table], catalog: Catalog) -> None:
    table = flights(1)

    def preview(*columns: str) -> str:
        options = parse_options("compute_table_stats", {"columns": columns})
        return plan_action(options, PlanningContext(MetadataReader(table), catalog, datetime.now(UTC))).message

    table = with_statistics(table, 1)
    assert preview("month").startswith("Would compute no statistics")
    assert preview("carrier") == "Would compute statistics of 1 column"
    assert preview() == "Would compute statistics of all columns"

    table = with_statistics(table, 1, 2)
    assert preview().startswith("Would compute no statistics")
