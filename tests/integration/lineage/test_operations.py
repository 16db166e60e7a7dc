"""Recording operations: once each, with the work or after it, and never to the harm of the work.

Every operation of the log runs on both databases here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import OperationLog, forget_operations, note_operation, record_operation
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.jobs import switches
from airflow_snowpack.store.tables.lineage import operation_edges, operation_tables, operations

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TASK = TaskRef("shop", "manual__1", "clean", -1, 2)
CLEAN = Operation(
    OperationKind.CREATE,
    NOW,
    inputs=(TableAt("lake.shop.orders", 11, "s3://lake/orders"), TableAt("lake.shop.customers", 7)),
    outputs=(TableAt("lake.snowpack_interim.clean_1", 12),),
    task=TASK,
    rows=1_000,
    detail={"layers": [1000, 10, 1]},
)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(open_engine(store_url), clock=lambda: NOW) as opened:
        yield opened


def test_an_operation_is_read_back_as_it_was_recorded_under_each_of_its_tables(store: Store) -> None:
    log = OperationLog(store)

    assert note_operation(store, CLEAN)
    assert note_operation(store, CLEAN)

    for table in ("lake.shop.orders", "lake.shop.customers", "lake.snowpack_interim.clean_1"):
        assert log.of_table(table).items == (CLEAN,)
    assert log.of_table("lake.shop.other").items == ()
    assert log.of_task("shop", "manual__1", "clean") == [CLEAN]
    assert log.of_task("shop", "manual__1", "clean", 3) == []


@pytest.mark.one_database
def test_a_build_is_recorded_under_the_url_of_its_dataset(store: Store) -> None:
    build = Operation(
        OperationKind.BUILD, NOW, (TableAt("lake.shop.orders", 11),), (DatasetAt("s3://lake/builds/orders/", "20261121T120000Z"),)
    )
    note_operation(store, build)

    (found,) = OperationLog(store).of_table("s3://lake/builds/orders").items
    assert found.outputs == (DatasetAt("s3://lake/builds/orders", "20261121T120000Z"),)


def test_pages_of_a_tables_operations_meet_without_a_gap_even_within_one_moment(store: Store) -> None:
    every = [replace(CLEAN, operation_id=f"{number:032x}", at=NOW + timedelta(seconds=number // 4)) for number in range(11)]
    for operation in every:
        note_operation(store, operation)

    log, seen, after = OperationLog(store), [], None
    while True:
        page = log.of_table("lake.shop.orders", limit=3, after=after)
        seen += [operation.operation_id for operation in page.items]
        if (after := page.next) is None:
            break
    assert seen == [operation.operation_id for operation in reversed(every)]


def test_a_pair_of_tables_is_there_once_with_the_newest_of_its_operations_in_whatever_order_they_arrive(store: Store) -> None:
    newest, older = replace(CLEAN, operation_id="2"), replace(CLEAN, operation_id="1", at=NOW - timedelta(days=1))
    for operation in (newest, older):
        note_operation(store, operation)

    edges = store.read(lambda conn: conn.execute(sa.select(operation_edges)).all())
    assert [(edge.source, edge.operation_id, edge.operations, edge.first_at, edge.last_at) for edge in edges] == [
        ("lake.shop.customers", "2", 2, older.at, newest.at),
        ("lake.shop.orders", "2", 2, older.at, newest.at),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"outputs": (TableAt("x" * 5_000),)}, id="a name that no index takes"),
        pytest.param({"outputs": (TableAt("lake.shop.\x00"),)}, id="a name that no database takes"),
        pytest.param({"kind": "guess"}, id="an unknown kind"),
        pytest.param({"at": datetime(2026, 1, 1)}, id="a moment without a zone"),  # noqa: DTZ001 - that is what it is about
        pytest.param({"detail": {"set": {1}}}, id="what JSON cannot hold"),
        pytest.param({"rows": 2**70}, id="a number that no database holds"),
    ],
)
def test_a_record_that_fails_is_logged_and_the_work_around_it_goes_on(
    store: Store, broken: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    operation = replace(CLEAN, **broken)  # type: ignore[arg-type]  # wrong on purpose

    def work(conn: sa.Connection) -> bool:
        conn.execute(sa.insert(switches).values(name="work", enabled=True, changed_at=NOW))
        return record_operation(conn, operation)

    assert store.transact(work) is False
    assert note_operation(store, operation) is False

    assert store.read(lambda conn: conn.execute(sa.select(switches.c.name)).scalars().all()) == ["work"]
    for table in (operations, operation_tables, operation_edges):
        assert store.read(lambda conn, table=table: conn.execute(sa.select(table)).all()) == []
    assert caplog.text.count("operation_not_recorded") >= 2


def test_without_its_tables_nothing_is_recorded_and_nothing_is_raised(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with store.engine.begin() as conn:
        conn.exec_driver_sql("DROP TABLE operation_edges")

    assert note_operation(store, CLEAN) is False
    assert "operation_not_recorded: create of ['lake.snowpack_interim.clean_1']" in caplog.text


def test_a_record_goes_with_the_transaction_that_it_belongs_to(store: Store) -> None:
    def work(conn: sa.Connection) -> None:
        record_operation(conn, CLEAN)
        raise RuntimeError("the work failed after all")

    with pytest.raises(RuntimeError):
        store.transact(work)
    assert OperationLog(store).of_table("lake.shop.orders").items == ()


def test_what_is_old_is_forgotten_and_a_pair_stays_as_long_as_it_was_connected_lately(store: Store) -> None:
    old, lately = (
        replace(CLEAN, operation_id="1", at=NOW - timedelta(days=91)),
        replace(CLEAN, operation_id="2", inputs=CLEAN.inputs[:1]),
    )
    for operation in (old, lately):
        note_operation(store, operation)

    assert forget_operations(store, keep=timedelta(days=90)) == 1
    assert forget_operations(store, keep=timedelta(days=90)) == 0

    assert OperationLog(store).of_table("lake.shop.orders").items == (lately,)
    assert OperationLog(store).of_table("lake.shop.customers").items == ()
    assert store.read(lambda conn: conn.execute(sa.select(operation_edges.c.source)).scalars().all()) == ["lake.shop.orders"]
    assert store.read(lambda conn: conn.execute(sa.select(operation_tables.c.operation_id).distinct()).scalars().all()) == ["2"]
