"""Which table came from which: both ways, through cycles, and at the cost of what is shown.

Every operation of the lineage runs on both databases here. What the walk decides in Python runs on SQLite alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_snowpack.lineage.graph import Direction, Lineage, LineageGraph
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(open_engine(store_url), clock=lambda: NOW) as opened:
        yield opened


def made(store: Store, target: str, *sources: str, minute: int = 0) -> Operation:
    inputs = [TableAt(source, 1) for source in sources]
    output = DatasetAt(target) if "://" in target else TableAt(target, 2)
    kind = OperationKind.MAINTENANCE if target in sources else OperationKind.CREATE
    operation = Operation(kind, NOW + timedelta(minutes=minute), inputs, [output])
    assert note_operation(store, operation)
    return operation


def depths(graph: LineageGraph) -> dict[str, int]:
    return {node.name: node.depth for node in graph.nodes}


def pairs(graph: LineageGraph) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.edges}


@pytest.fixture
def diamond(store: Store) -> Store:
    made(store, "lake.f.raw")
    made(store, "lake.f.clean", "lake.f.raw", minute=1)
    made(store, "lake.f.by_day", "lake.f.clean", minute=2)
    made(store, "lake.f.by_carrier", "lake.f.clean", minute=3)
    made(store, "lake.f.report", "lake.f.by_day", "lake.f.by_carrier", minute=4)
    made(store, "s3://lake/builds/report", "lake.f.report", minute=5)
    return store


def test_upstream_of_a_diamond_has_each_table_once_at_its_least_depth(diamond: Store) -> None:
    graph = Lineage(diamond).graph("lake.f.report", Direction.UP)

    assert depths(graph) == {
        "lake.f.report": 0,
        "lake.f.by_day": -1,
        "lake.f.by_carrier": -1,
        "lake.f.clean": -2,
        "lake.f.raw": -3,
    }
    assert len(pairs(graph)) == 5
    assert not any(node.more for node in graph.nodes)


@pytest.mark.one_database
def test_both_ways_of_a_table_in_the_middle_meet_in_it(diamond: Store) -> None:
    graph = Lineage(diamond).graph("lake.f.clean")

    assert depths(graph) == {
        "lake.f.raw": -1,
        "lake.f.clean": 0,
        "lake.f.by_day": 1,
        "lake.f.by_carrier": 1,
        "lake.f.report": 2,
        "s3://lake/builds/report": 3,
    }
    assert [node.name for node in graph.nodes if node.is_dataset] == ["s3://lake/builds/report"]


@pytest.mark.one_database
def test_where_the_depth_ends_the_graph_says_that_there_is_more(diamond: Store) -> None:
    graph = Lineage(diamond).graph("lake.f.raw", Direction.DOWN, depth=1)

    assert depths(graph) == {"lake.f.raw": 0, "lake.f.clean": 1}
    assert {node.name: node.more for node in graph.nodes} == {"lake.f.raw": False, "lake.f.clean": True}


def test_each_table_tells_who_wrote_it_last(store: Store) -> None:
    made(store, "lake.f.clean", "lake.f.raw")
    maintained = made(store, "lake.f.clean", "lake.f.clean", minute=1)

    graph = Lineage(store).graph("lake.f.clean", Direction.UP)
    written = {node.name: node.written for node in graph.nodes}
    assert written["lake.f.raw"] is None
    assert written["lake.f.clean"] is not None
    assert written["lake.f.clean"].operation_id == maintained.operation_id
    assert pairs(graph) == {("lake.f.raw", "lake.f.clean")}


def test_a_cycle_ends_and_shows_all_of_its_pairs(store: Store) -> None:
    made(store, "lake.f.b", "lake.f.a")
    made(store, "lake.f.c", "lake.f.b")
    made(store, "lake.f.a", "lake.f.c")

    for graph in (Lineage(store).graph("lake.f.a", Direction.UP, depth=50), Lineage(store).graph("lake.f.a", depth=50)):
        assert set(depths(graph)) == {"lake.f.a", "lake.f.b", "lake.f.c"}
        assert pairs(graph) == {("lake.f.a", "lake.f.b"), ("lake.f.b", "lake.f.c"), ("lake.f.c", "lake.f.a")}
        assert not any(node.more for node in graph.nodes)


def test_of_many_neighbours_the_newest_are_shown_and_the_table_says_that_there_are_more(store: Store) -> None:
    for minute in range(6):
        made(store, f"lake.interim.t{minute}", "lake.f.raw", minute=minute)

    graph = Lineage(store, neighbours=2).graph("lake.f.raw", Direction.DOWN)
    assert list(depths(graph)) == ["lake.f.raw", "lake.interim.t5", "lake.interim.t4"]
    assert graph.root.more


def test_a_table_that_nobody_wrote_is_a_graph_of_its_own_and_says_that_nothing_is_known(store: Store) -> None:
    graph = Lineage(store).graph("lake.f.nobody\x00s")

    assert len(graph.nodes) == 1
    assert not graph.is_known


@pytest.mark.one_database
def test_a_walk_reads_no_more_rows_however_often_tables_were_made_from_each_other(diamond: Store) -> None:
    """Counted by statements and by the plan: a level is one statement, and each part of it enters an index."""
    statements: list[str] = []
    sa.event.listen(diamond.engine, "before_cursor_execute", lambda c, cur, statement, *rest: statements.append(statement))
    for _ in range(20):
        made(diamond, "lake.f.clean", "lake.f.raw")
    statements.clear()

    graph = Lineage(diamond).graph("lake.f.report", Direction.UP)
    levels = [statement for statement in statements if "operation_edges" in statement]
    assert len(levels) == 4
    assert {edge.operations for edge in graph.edges if edge.target == "lake.f.clean"} == {21}


@pytest.mark.parametrize("way", ["source", "target"])
def test_the_neighbours_of_a_table_are_found_by_an_index(store: Store, way: str) -> None:
    other = "target" if way == "source" else "source"
    explain = "EXPLAIN " if store.is_postgres else "EXPLAIN QUERY PLAN "
    query = f"SELECT * FROM operation_edges WHERE {way} = 'lake.f.raw' ORDER BY last_at DESC, {other} LIMIT 21"

    plan = str(store.read(lambda conn: conn.exec_driver_sql(explain + query).all()))
    assert f"ix_operation_edges_{way}_last_at" in plan
