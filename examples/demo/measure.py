"""A table in numbers, taken the same way before and after.

    before = measure(session, catalog, name)

The rows are read by two engines that know nothing of each other: PyIceberg gives count and checksum, Spark gives its own checksum
together with the time of the scan. A checksum is a sum of hashes of whole rows, so the order of rows does not matter to it.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import find_orphans, load_table, read_health
from airflow_snowpack.store import utc_now
from examples.demo.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName

# The default of remove_orphan_files: a younger file may belong to a commit that is still on its way.
ORPHAN_AGE = timedelta(days=3)
SCANS = 2


@dataclass(frozen=True, slots=True)
class Measurement:
    """One table at one moment.

    :param bytes: of the data and delete files that the table consists of now.
    :param stored_bytes: of everything in its folder: old snapshots, orphans and metadata too.
    :param scan_seconds: the best of two full scans over all columns in a warm Spark session.
    :param checksum: PyIceberg's, over all rows and columns.
    :param spark_checksum: Spark's.
    """

    data_files: int
    small_files: int
    delete_files: int
    manifests: int
    snapshots: int
    orphan_files: int
    bytes: int
    stored_bytes: int
    scan_seconds: float
    rows: int
    checksum: str
    spark_checksum: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def same_rows_as(self, other: Measurement) -> bool:
        """Whether both have the same rows, for both engines."""
        mine, theirs = ((each.rows, each.checksum, each.spark_checksum) for each in (self, other))
        return mine == theirs


def measure(session: SparkSession, catalog: Catalog, name: TableName) -> Measurement:
    """Read the table as it is now."""
    table = load_table(catalog, name)
    now = utc_now()
    health = read_health(table, now=now)
    rows, digest = checksum(table.scan().to_arrow())
    seconds, spark_checksum = _scan(session, name)
    return Measurement(
        data_files=health.totals.data_files,
        small_files=health.small_files,
        delete_files=health.totals.delete_files,
        manifests=health.totals.manifests,
        snapshots=health.totals.snapshots,
        orphan_files=len(find_orphans(table, older_than=now - ORPHAN_AGE)),
        bytes=health.totals.bytes,
        stored_bytes=sum(file.size for file in TableFiles(table).list()),
        scan_seconds=round(seconds, 3),
        rows=rows,
        checksum=digest,
        spark_checksum=spark_checksum,
    )


def checksum(rows: pa.Table) -> tuple[int, str]:
    """Return how many rows there are, and a sum over the hashes of the whole rows."""
    from pandas.util import hash_pandas_object

    frame = rows.to_pandas()
    frame = frame[sorted(frame.columns)]
    # The hashes are unsigned 64-bit numbers: their sum wraps around, and stays the same in any order.
    return len(frame), f"{int(hash_pandas_object(frame, index=False).sum()):016x}"


def _scan(session: SparkSession, name: TableName) -> tuple[float, str]:
    query = f"SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) FROM {name.quoted}"
    session.sql(query).collect()  # the first one warms the JVM up, before as well as after
    best = float("inf")
    for _ in range(SCANS):
        started = time.perf_counter()
        (answer,) = session.sql(query).collect()
        best = min(best, time.perf_counter() - started)
    return best, f"{answer[0]}:{answer[1]}"
