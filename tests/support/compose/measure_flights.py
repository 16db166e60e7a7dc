"""Print the numbers and the checksum of ``demo.flights``: standard input of ``python -`` in a container of Airflow."""

from __future__ import annotations

import json

from airflow_snowpack.hooks import IcebergCatalogHook
from airflow_snowpack.iceberg import read_health
from airflow_snowpack.store import utc_now
from examples.demo.measure import checksum

table = IcebergCatalogHook().catalog.load_table("demo.flights")
totals = read_health(table, now=utc_now()).totals
rows, digest = checksum(table)
print(json.dumps({"files": totals.data_files, "manifests": totals.manifests, "rows": rows, "checksum": digest}))
