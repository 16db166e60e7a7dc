"""``airflow snowpack lineage`` on a real store: a tree for people, the graph for programs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import Run
from lineage_world import make_lineage

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation

PAGE = (Path(__file__).parents[3] / "docs" / "lineage.md").read_text()


@pytest.fixture(autouse=True)
def _world(jobs: Jobs) -> None:
    make_lineage(jobs.store, jobs.store.clock())


def test_both_ways_are_drawn_with_who_did_what_and_when(snowpack: Run) -> None:
    said = snowpack("lineage", "flights.report")

    assert (said.code, said.err) == (0, "")
    # How long the test has taken so far must not matter.
    lines = [re.sub(r", \d+ min(?: \d+ s)? ago", "", line.rstrip()) for line in said.out.splitlines()]
    assert lines[0] == "lake.flights.report  maintenance, job a1b2c3d4e5f6, snapshot 5577006791947779410"
    assert said.out.count(" min ago") + said.out.count(" s ago") > 5
    assert "Upstream" in lines
    assert "Downstream" in lines
    built = "build by flights/manual__2026-11-21T06:00:00+00:00/build try 1, 381 rows, run 20261121T000000Z"
    assert f"└── s3://lake/builds/report  {built}" in lines
    by_day = next(line for line in lines if "lake.interim.by_day " in line)
    assert "insert by flights/manual__2026-11-21T06:00:00+00:00/report try 1" in by_day
    assert said.out.count("lake.interim.clean ") == 2
    assert said.out.count("(see above)") == 1
    assert said.out.count("lake.flights.raw ") == 1


def test_one_way_and_no_deeper_than_asked_says_that_there_is_more(snowpack: Run) -> None:
    said = snowpack("lineage", "lake.flights.report", "--up", "--depth", "1")

    assert "Downstream" not in said.out
    assert "lake.interim.clean" not in said.out
    assert said.out.count("…") == 2
    assert "increase --depth" in said.err


def test_programs_get_the_graph_whole(snowpack: Run) -> None:
    graph = snowpack("lineage", "flights.raw", "--down", "-o", "json").json

    assert (graph["table"], graph["known"]) == ("lake.flights.raw", True)
    assert {node["name"]: node["depth"] for node in graph["nodes"]}["s3://lake/builds/report"] == 4
    (edge,) = (edge for edge in graph["edges"] if edge["source"] == "lake.flights.raw")
    assert edge["operation"]["task"]["task_id"] == "clean"
    assert edge["operation"]["inputs"][0] == {"name": "lake.flights.raw", "snapshot_id": 101, "run_id": None}

    plain = snowpack("lineage", "flights.raw", "--down", "-o", "plain").out.splitlines()
    assert plain[0].split() == ["source", "target", "kind", "at", "task", "job", "rows", "operations"]
    assert len(plain) == len(graph["edges"]) + 1


def test_a_dataset_is_found_by_its_name_and_by_its_url(snowpack: Run, jobs: Jobs, tmp_path: Path) -> None:
    storage = Storage(tmp_path / "by_tail")
    BuildRegistry(jobs.store).begin("by_tail", storage.url, as_of=datetime(2026, 4, 25, tzinfo=UTC), num_shards=1)
    build = Operation(OperationKind.BUILD, jobs.store.clock(), (TableAt("other.db.t"),), (DatasetAt(storage.url),))
    note_operation(jobs.store, build)

    for name in ("by_tail", storage.url):
        assert [node["name"] for node in snowpack("lineage", name, "-o", "json").json["nodes"]] == [
            "other.db.t",
            storage.url.rstrip("/"),
        ]
    assert snowpack("lineage", "other.db.t", "--down", "-o", "json").json["table"] == "other.db.t"
    assert snowpack("lineage", "nothing_such").code == 4


def test_what_nobody_recorded_is_said_to_be_unknown(snowpack: Run) -> None:
    said = snowpack("lineage", "demo.nobody")

    assert (said.code, said.out) == (0, "No operations on lake.demo.nobody are recorded.\n")


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "lineage.md", "exec"), {"store_url": f"sqlite:///{tmp_path / 'snowpack.db'}"})
