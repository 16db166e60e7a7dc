"""Which Iceberg tables a DataFrame reads, and at which snapshots: from its own plan, before a row is read.

    >>> tables_read(session.sql("SELECT … FROM shop.orders JOIN shop.customers USING (id)"))  # doctest: +SKIP
    (ReadTable(name='lake.shop.orders', snapshot_id=11, location='s3://lake/orders'), …)

It is for lineage, so it never fails: what it cannot read is left out. On Spark Connect the plan is the server's, so the result
is empty.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

RELATION = "DataSourceV2Relation"
ICEBERG = "org.apache.iceberg.spark.source.SparkTable"
METADATA = "org.apache.iceberg.BaseMetadataTable"
MOST_RELATIONS = 200
"""A plan that a loop has made may have thousands; each costs some calls of the JVM."""


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that is read.

    :param name: with its catalog.
    :param snapshot_id: ``None`` for a table without one.
    """

    name: str
    snapshot_id: int | None
    location: str


def tables_read(df: DataFrame) -> tuple[ReadTable, ...]:
    """The Iceberg tables that a DataFrame reads, each snapshot once, subqueries included; metadata tables are left out."""
    plan: Any = getattr(df, "_jdf", None)
    if plan is None:
        return ()
    from py4j.protocol import Py4JError

    try:
        found = dict.fromkeys(_tables(df.sparkSession.sparkContext._gateway, plan.queryExecution().analyzed()))
    except (Py4JError, OSError) as problem:  # the JVM is gone, or its classes are other ones: the work itself will fail
        log.info("Which tables a DataFrame reads is not known: %s", problem)
        return ()
    return tuple(found)


def _tables(gateway: Any, plan: Any) -> Iterator[ReadTable]:
    from py4j.java_gateway import is_instance_of

    subqueries = plan.subqueriesAll()
    visited = 0
    for each in (plan, *(subqueries.apply(place) for place in range(subqueries.size()))):
        leaves = each.collectLeaves()
        for place in range(leaves.size()):
            leaf = leaves.apply(place)
            if leaf.getClass().getSimpleName() != RELATION:
                continue
            visited += 1
            if visited > MOST_RELATIONS:
                return
            relation = leaf.table()
            if relation.getClass().getName() != ICEBERG:
                continue
            table = relation.table()
            if not is_instance_of(gateway, table, METADATA):
                yield ReadTable(relation.name(), relation.snapshotId(), table.location())
