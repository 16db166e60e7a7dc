"""kill -9 of a process that reduces a table layer by layer on Spark: in each layer, and when the result was written.

A kill ends one reduction in each of these places, so one round shows them all; ``make soak`` repeats it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import kill_reduction
import psutil
import pyarrow as pa
import pytest
from bounded import PATIENCE_S, started
from builds_world import empty_store
from clocks import ShiftedClock
from effort import rounds
from interim_lake import LAKE, InterimLake, ReportedRuns, holder
from kill_reduction import CONSUMER, FAN_IN, LAYERS, LONGEST_S, TASK, WRITTEN, reduced
from scripted_engine import eventually

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.interim import InterimRegistry, TableHandover, sweep
from airflow_snowpack.interim.collection.dropping import folder_of_namespace
from airflow_snowpack.interim.frames.tables import read_as_arrow, write_table
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import Output
from airflow_snowpack.spark import SparkConfig, local_session
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = rounds(1, soak=20)
NAMESPACE = "snowpack_interim"
PLACES = [*map(str, range(LAYERS)), WRITTEN]
RETRIED = ["1", WRITTEN]
"""The other runs are given up."""
ROWS = FAN_IN**LAYERS


@dataclass
class Killed:
    """What is left of the reductions, one in each DAG run, and what each of them was reducing."""

    lake: InterimLake
    clock: ShiftedClock
    reported: ReportedRuns
    inputs: dict[str, TableRef]

    def collect(self) -> set[str]:
        """A pass that looks at every run; gives the tables that are there then, and checks that nothing else is."""
        self.clock.ahead += timedelta(hours=2)
        assert self.lake.collector(self.reported).run().failed == ()
        there = {".".join(name) for name in self.lake.catalog.list_tables(NAMESPACE)}
        assert there <= {f"{table.table.database}.{table.table.table}" for table in self.lake.registry.tables()}
        around = folder_of_namespace(self.lake.catalog, NAMESPACE)
        assert around is not None
        assert {f"{NAMESPACE}.{name}" for name in around.children()} == there
        return {f"{LAKE}.{name}" for name in there}


@pytest.fixture
def own_lake(tmp_path: Path) -> CatalogConfig:
    config = CatalogConfig.embedded(tmp_path / "lake")
    config.load().create_namespace(NAMESPACE)
    return config


@pytest.fixture
def killed(own_lake: CatalogConfig, tmp_path: Path) -> Iterator[Killed]:
    """A process that reduces a table in several runs at once is killed when each of them is in another place."""
    clock, reported, url, scratch = ShiftedClock(), ReportedRuns(), empty_store(tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    rows = pa.table({"depth": pa.array([0] * ROWS, pa.int64()), "n": pa.array(range(ROWS), pa.int64())})
    command = [sys.executable, kill_reduction.__file__, url, str(tmp_path / "lake"), str(scratch)]
    with Store(open_engine(url), clock) as store, started(command, patience_s=LONGEST_S, stdin=PIPE) as doomed:
        lake = InterimLake(InterimRegistry(store), own_lake.load())
        assert doomed.stdin is not None
        inputs = {}
        for place in PLACES:
            writing = lake.begun("make", run_id=place)
            written = write_table(rows, writing.table, lake.catalog, store.identity)
            inputs[place] = lake.registry.commit(Output(writing, written.snapshot_id, ROWS), consumers=[TASK])[0]
            doomed.stdin.write(json.dumps({"ref": inputs[place].to_json(), "place": place}) + "\n")
            reported.finish("make", run_id=place)
            reported.set(TASK, "running", run_id=place)
        doomed.stdin.flush()
        there = [scratch / place for place in PLACES]
        eventually(lambda: doomed.poll() is not None or all(file.exists() for file in there), LONGEST_S)
        assert doomed.poll() is None
        assert list((scratch / "spark").rglob("*.data")), "what the layers have made is there"

        below = psutil.Process(doomed.pid).children(recursive=True)
        doomed.kill()
        assert psutil.wait_procs(below, PATIENCE_S)[1] == [], "its Spark goes with it"
        assert list((scratch / "spark").iterdir()) == [], "and all that the layers have made"
        yield Killed(lake, clock, reported, inputs)


@pytest.mark.timeout(LONGEST_S + 240)  # it starts a Spark of its own, which takes long on a busy machine
@pytest.mark.parametrize("_round", range(ROUNDS))
def test_a_kill_in_any_layer_leaks_nothing_and_the_retry_finds_its_rows(
    killed: Killed,
    own_lake: CatalogConfig,
    spark: SparkSession,
    spark_config: SparkConfig,
    record_property: Callable[[str, int], None],
    _round: int,
) -> None:
    record_property("faults", len(PLACES))
    lake, reported = killed.lake, killed.reported
    inputs = {ref.table for ref in killed.inputs.values()}
    left = {table.producer.run_id: str(table.table) for table in lake.registry.tables() if table.producer.task_id == TASK}
    assert list(left) == [WRITTEN], "there is one table at most: no layer has one"
    for place in PLACES:
        reported.set(TASK, "up_for_retry", run_id=place)
    assert inputs <= killed.collect()

    session, results = local_session(replace(spark_config, catalogs=own_lake.spark_conf())), {}
    for place in RETRIED:
        who = holder(TASK, run_id=place, try_number=2)
        with TableHandover(lake.registry, lambda: lake.catalog, who, catalog_name=LAKE, consumers=[CONSUMER]) as handover:
            results[place] = reduced(handover, killed.inputs[place], session)
        reported.finish(TASK, run_id=place)
    for place in set(PLACES) - set(RETRIED):
        reported.end(place)
    assert killed.collect() == {ref.table for ref in results.values()}, "what the killed one wrote goes, and what it read"
    for place, ref in results.items():
        assert read_as_arrow(ref, lake.catalog).to_pylist() == [{"depth": LAYERS, "n": sum(range(ROWS))}]
        reported.end(place)

    assert killed.collect() == set()
    killed.clock.ahead += timedelta(days=2)
    assert sweep(lake.registry, lake.catalog, LAKE, dry_run=True) == []
    assert lake.registry.tables() == []
