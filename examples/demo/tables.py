"""The tables that README's first DAG and the DAGs in ``dags/`` work on: ``python -m examples.demo.tables [--catalog CONN_ID]``.

    make_tables(catalog, "lake")          # ['demo.flights', 'demo.airports', 'demo.planes']
    make_tables(catalog, "lake")          # []

``demo.flights`` has the first two weeks of 2013, a commit a day. A table that exists is left as it is.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import TableName
from examples.demo.flights import create_table, days_of, read_flights, read_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

DAYS = 14
FLIGHTS = "demo.flights"
REFERENCE = ("airports", "planes")


def make_tables(catalog: Catalog, catalog_name: str) -> list[str]:
    """Make the tables that are missing; return their names."""
    flights = TableName.parse(FLIGHTS, catalog=catalog_name)
    made = [FLIGHTS] if make_flights(catalog, flights) else []
    for each in REFERENCE:
        name = TableName.parse(f"demo.{each}", catalog=catalog_name)
        if not catalog.table_exists(name.identifier):
            rows = read_reference(each)
            catalog.create_table(name.identifier, schema=rows.schema).append(rows)
            made.append(name.dotted)
    return made


def make_flights(catalog: Catalog, name: TableName) -> int:
    """Make the table of flights if it is missing; return how many rows were loaded."""
    if catalog.table_exists(name.identifier):
        return 0
    flights = read_flights(DAYS)
    table = create_table(catalog, name, flights)
    for _, rows in days_of(flights):
        table.append(rows)
    return int(flights.num_rows)


def main(arguments: Sequence[str] = ()) -> None:
    """Make the tables in the embedded catalog of this AIRFLOW_HOME, or in the configured catalog if ``--catalog`` names it."""
    from airflow_snowpack.hooks import IcebergCatalogHook

    parser = argparse.ArgumentParser(prog="python -m examples.demo.tables", description="Make the example DAGs' tables.")
    parser.add_argument("--catalog", metavar="CONN_ID", help="[snowpack] catalog_conn_id, if that catalog may get the tables")
    permitted = parser.parse_args(arguments).catalog
    hook = IcebergCatalogHook()
    configured = hook.settings.catalog_conn_id
    if configured is not None and configured != permitted:
        print(
            f"Only the embedded catalog gets the example DAGs' tables, and [snowpack] catalog_conn_id = {configured!r}. "
            f"Pass --catalog {configured} to create them in that catalog."
        )
        return
    made = make_tables(hook.catalog, hook.settings.catalog_name)
    print(f"Tables for the example DAGs: {', '.join(made) or 'already there'}.")


if __name__ == "__main__":
    main(sys.argv[1:])
