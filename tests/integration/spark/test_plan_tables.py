"""Which Iceberg tables a DataFrame reads, told by its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.spark.plan_tables import tables_read

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


def test_a_query_reads_its_tables_at_the_snapshots_that_it_was_planned_on(
    spark: SparkSession, catalog: Catalog, new_table: Callable[..., TableName], append: Callable[..., None]
) -> None:
    one, other, empty = new_table("id BIGINT"), new_table("id BIGINT"), new_table("id BIGINT")
    for name in (one, other):
        append(name, id=[1, 2])
    first = catalog.load_table(one.identifier).current_snapshot()
    assert first is not None
    append(one, id=[3])
    now = {name: catalog.load_table(name.identifier).metadata for name in (one, other, empty)}

    joined = spark.sql(
        f"SELECT o.id FROM {one.quoted} o JOIN {empty.quoted} USING (id) "
        f"WHERE EXISTS (SELECT 1 FROM {other.quoted} x WHERE x.id = o.id)"
    ).unionByName(spark.table(one.quoted))
    found = {table.name: (table.snapshot_id, table.location) for table in tables_read(joined)}
    assert found == {str(name): (of.current_snapshot_id, of.location) for name, of in now.items()}
    assert len(tables_read(joined)) == 3

    (then,) = tables_read(spark.read.option("versionAsOf", first.snapshot_id).table(one.quoted).filter("id > 1"))
    assert then.snapshot_id == first.snapshot_id
    assert tables_read(spark.range(3)) == ()
    assert tables_read(spark.table(f"{one.quoted}.snapshots")) == (), "what is known of a table is not what is in it"
