"""Reduces the same tables in several DAG runs at once, on one Spark, and gets stuck in another place of each:
``python kill_reduction.py <store url> <lake folder> <scratch folder>``.

A line on standard input is the reference of a run's input and the place: the number of a layer whose function does not come back,
or ``written`` for a task that does not come back when its result is in the catalog and not handed on. A file of that name in the
scratch folder says that it is there; Spark's own files are in ``spark`` beside it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from interim_lake import LAKE, holder

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.interim import InterimRegistry, TableHandover, reduce_rows
from airflow_snowpack.interim.refs import Ref, TableRef, read_ref
from airflow_snowpack.spark import SparkConfig, local_session
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

FAN_IN, LAYERS = 3, 3
TASK, CONSUMER, WRITTEN = "reduce", "report", "written"
LONGEST_S = 600.0


def stay(scratch: str, place: str) -> None:
    """Say where, and do not come back; only as long as somebody may still kill this."""
    Path(scratch, place).touch()
    time.sleep(LONGEST_S)
    raise TimeoutError(place)


def add(rows: list[dict[str, Any]], scratch: str, place: str) -> dict[str, Any]:
    """The sum; ``depth`` counts the layers."""
    depth = rows[0]["depth"]
    if str(depth) == place:
        stay(scratch, place)
    return {"depth": depth + 1, "n": sum(row["n"] for row in rows)}


def reduced(handover: TableHandover, ref: Ref, session: Any, scratch: str = "", place: str = "") -> TableRef:
    """What the operator does."""

    def work() -> TableRef:
        rows = handover.read(ref, session)
        came_to = reduce_rows(add, rows, FAN_IN, kwargs={"scratch": scratch, "place": place}, partitions=1)
        given = handover.give(came_to.df)
        if place == WRITTEN:
            stay(scratch, place)
        return given

    return handover.run(session, work)


def attempt(url: str, home: str, ref: Ref, session: Any, scratch: str, place: str) -> None:
    lake = CatalogConfig.embedded(Path(home))
    who = holder(TASK, run_id=ref.of.producer.run_id)
    with (
        Store(open_engine(url)) as store,
        TableHandover(InterimRegistry(store), lake.load, who, catalog_name=LAKE, consumers=[CONSUMER]) as handover,
    ):
        reduced(handover, ref, session, scratch, place)


def main(url: str, home: str, scratch: str) -> None:
    lake = CatalogConfig.embedded(Path(home))
    own = {"spark.local.dir": str(Path(scratch, "spark")), "spark.sql.shuffle.partitions": "1"}
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), master=f"local[{LAYERS + 1}]", conf=own)
    session = local_session(config)
    for line in sys.stdin:
        told = json.loads(line)
        ref = read_ref(told["ref"])
        threading.Thread(target=partial(attempt, url, home, ref, session, scratch, told["place"])).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
