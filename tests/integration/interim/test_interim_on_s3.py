"""Interim tables with their files in a real S3 server: collector and sweeper leave nothing of them, and touch nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from clocks import MovedClock
from interim_lake import NOON, InterimLake, ReportedRuns
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from s3_server import s3_server

from airflow_snowpack.interim.collection.dropping import Folder
from airflow_snowpack.interim.collection.sweeper import sweep
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import open_store

NAMESPACE = "s3://lake/warehouse/snowpack_interim"


def properties(options: dict[str, Any]) -> dict[str, str]:
    """Of the server, as a catalog is reported of it."""
    return {
        "s3.endpoint": f"{options['scheme']}://{options['endpoint_override']}",
        "s3.access-key-id": options["access_key"],
        "s3.secret-access-key": options["secret_key"],
        "s3.region": options["region"],
    }


def test_what_goes_leaves_no_object_and_what_stays_keeps_its_own(sqlite_url: str, tmp_path: Path) -> None:
    clock, reported = MovedClock(NOON), ReportedRuns()
    with s3_server() as options, open_store(sqlite_url, clock=clock) as store:
        reach = properties(options)
        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3://lake/warehouse", **reach)
        claim(catalog, "lake", "snowpack_interim", store.identity)
        lake = InterimLake(InterimRegistry(store), catalog)
        goes = lake.handed_on("clean", with_rows=True)
        stays = lake.handed_on("ingest", consumers=["report"], with_rows=True)
        beside = f"{NAMESPACE}/{goes.table.rpartition('.')[2]}_2"
        leftover = f"{NAMESPACE}/lost_rows_5f0c3a9e4b7d4c21a8f6"
        for folder in (beside, leftover):
            with PyArrowFileIO(reach).new_output(f"{folder}/data/part-0.parquet").create() as stream:
                stream.write(b"half a write")

        assert [str(doomed.table) for doomed in lake.collect(reported).dropped] == [goes.table]
        clock.now = clock.now.now(clock.now.tzinfo) + timedelta(days=2)
        assert [action.location for action in sweep(lake.registry, catalog, "lake")] == [leftover]

        assert Folder(NAMESPACE, reach).children() == sorted([stays.table.rpartition(".")[2], beside.rpartition("/")[2]])
        assert catalog.load_table(("snowpack_interim", stays.table.rpartition(".")[2])).scan().to_arrow().num_rows == 3
