"""Two stores and one catalog: neither drops what is the other's, and neither is kept from what is its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from clocks import MovedClock
from interim_lake import InterimLake, ReportedRuns, holder

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.table_properties import STORE
from airflow_snowpack.interim.collection.dropping import Folder, folder_of_namespace
from airflow_snowpack.interim.collection.sweeper import SweepKind, sweep
from airflow_snowpack.interim.errors import ForeignNamespace, UnmarkedNamespace
from airflow_snowpack.interim.frames.tables import write_table
from airflow_snowpack.interim.model import InterimPolicy, OutputOptions, TableState
from airflow_snowpack.interim.ownership import adopt, claim, ownership_of
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Actor, Store, open_store
from airflow_snowpack.store.tables.interim import interim_tables

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

VERA = Actor("vera", via="cli")
NAMESPACE = "snowpack_interim"
ROWS = pa.table({"id": [1, 2, 3]})
STRANGER = "flights_lost_5f0c3a9e4b7d4c21a8f6"


@pytest.fixture
def interim_catalog(tmp_path: Path) -> Catalog:
    """A catalog without the namespace."""
    return CatalogConfig.embedded(tmp_path / "lake").load()


@pytest.fixture
def clock() -> MovedClock:
    """Two days ahead of the files."""
    return MovedClock(datetime.now(UTC) + timedelta(days=2))


@pytest.fixture
def laptop(migrated_sqlite: Path, tmp_path: Path, clock: MovedClock) -> Iterator[InterimRegistry]:
    """Another store, with the same settings."""
    database = shutil.copy(migrated_sqlite, tmp_path / "laptop.db")
    with open_store(f"sqlite:///{database}", clock=clock) as store:
        yield InterimRegistry(store)


def written(registry: InterimRegistry, catalog: Catalog, task_id: str = "clean", **options: Any) -> TableRef:
    """What a task hands on."""
    who = holder(task_id)
    writing = registry.begin(who, catalog="lake", options=OutputOptions(**options))
    made = write_table(ROWS, writing.table, catalog, registry.store.identity)
    return registry.commit(Output(writing, made.snapshot_id, 3, location=made.location), consumers=[])[0]


def in_catalog(catalog: Catalog) -> set[str]:
    return {f"lake.{'.'.join(name)}" for name in catalog.list_tables(NAMESPACE)}


def leftover(catalog: Catalog) -> Folder:
    """Files of a write that was killed."""
    around = folder_of_namespace(catalog, NAMESPACE)
    assert around is not None
    folder = Folder(f"{around.location}/lost_rows_5f0c3a9e4b7d4c21a8f6", catalog.properties)
    data = Path(folder.location.removeprefix("file://")) / "data"
    data.mkdir(parents=True)
    (data / "part-0.parquet").write_bytes(b"half a write")
    return folder


@pytest.mark.one_database
def test_another_stores_namespace_is_neither_written_to_nor_swept(
    registry: InterimRegistry, laptop: InterimRegistry, interim_catalog: Catalog
) -> None:
    kept = written(registry, interim_catalog, preservation=Preservation.FULL)
    folder = leftover(interim_catalog)

    with pytest.raises(
        ForeignNamespace, match=r"another store .*\[snowpack\] interim_namespace.*`airflow snowpack interim adopt`"
    ):
        written(laptop, interim_catalog)
    for dry_run in (True, False):
        with pytest.raises(ForeignNamespace):
            sweep(laptop, interim_catalog, "lake", dry_run=dry_run)

    assert in_catalog(interim_catalog) == {kept.table}
    assert [action.location for action in sweep(registry, interim_catalog, "lake")] == [folder.location]
    elsewhere = InterimRegistry(laptop.store, InterimPolicy("laptop_interim"))
    assert written(elsewhere, interim_catalog).table.startswith("lake.laptop_interim.")


@pytest.mark.one_database
def test_of_two_stores_that_meet_an_unmarked_namespace_at_once_one_has_it_and_no_table_is_lost(
    registry: InterimRegistry, laptop: InterimRegistry, interim_catalog: Catalog, clock: MovedClock
) -> None:
    interim_catalog.create_namespace(NAMESPACE)
    mine, other = registry.store.identity, laptop.store.identity
    write_table(ROWS, TableName("lake", NAMESPACE, STRANGER), interim_catalog, mine)
    # The other has read that nobody has it, and marks it after this one has.
    interim_catalog.update_namespace_properties(NAMESPACE, updates={STORE: other})

    assert [action.name for action in sweep(laptop, interim_catalog, "lake")] == [], "the table has a mark of its own"
    with pytest.raises(ForeignNamespace):
        claim(interim_catalog, "lake", NAMESPACE, mine)
    assert in_catalog(interim_catalog) == {f"lake.{NAMESPACE}.{STRANGER}"}


@pytest.mark.one_database
def test_many_that_make_the_namespace_at_once_all_find_it_theirs(registry: InterimRegistry, tmp_path: Path) -> None:
    store_id = registry.store.identity

    def make(number: int) -> None:
        claim(CatalogConfig.embedded(tmp_path / "lake").load(), "lake", f"interim_{number // 4}", store_id)

    CatalogConfig.embedded(tmp_path / "lake").load()
    with ThreadPoolExecutor(4) as tasks:
        list(tasks.map(make, range(16)))


@pytest.mark.one_database
def test_a_namespace_without_a_mark_gives_only_the_tables_that_carry_the_stores_own(
    registry: InterimRegistry, interim_catalog: Catalog
) -> None:
    interim_catalog.create_namespace(NAMESPACE)
    names = {None: STRANGER, "another": f"a_{STRANGER}", registry.store.identity: f"b_{STRANGER}"}
    for mark, name in names.items():
        properties = {} if mark is None else {STORE: mark}
        interim_catalog.create_table((NAMESPACE, name), schema=ROWS.schema, properties=properties)
    folder = leftover(interim_catalog)

    assert [action.name for action in sweep(registry, interim_catalog, "lake")] == [f"b_{STRANGER}"]
    assert folder.newest() is not None
    claim(interim_catalog, "lake", NAMESPACE, registry.store.identity)
    assert {action.name for action in sweep(registry, interim_catalog, "lake")} == {STRANGER, folder.name}
    assert in_catalog(interim_catalog) == {f"lake.{NAMESPACE}.a_{STRANGER}"}


@pytest.mark.one_database
def test_the_files_of_a_table_in_another_catalog_with_the_same_warehouse_stay(
    registry: InterimRegistry, laptop: InterimRegistry, interim_catalog: Catalog, tmp_path: Path
) -> None:
    kept = written(registry, interim_catalog, preservation=Preservation.FULL)
    warehouse = str(interim_catalog.properties["warehouse"])
    beside = CatalogConfig.sqlite("lake", tmp_path / "beside.db", warehouse=warehouse).load()
    claim(beside, "lake", NAMESPACE, laptop.store.identity)
    folder = leftover(beside)

    assert [(action.kind, action.name) for action in sweep(laptop, beside, "lake")] == [(SweepKind.FOLDER, folder.name)]
    assert interim_catalog.load_table(kept.table.removeprefix("lake.")).scan().to_arrow().num_rows == 3


@pytest.mark.one_database
def test_a_catalog_that_keeps_no_properties_of_namespaces_has_the_marks_of_its_tables(
    registry: InterimRegistry, laptop: InterimRegistry, interim_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object, **__: object) -> Any:
        raise NotImplementedError

    interim_catalog.create_namespace(NAMESPACE)
    monkeypatch.setattr(type(interim_catalog), "update_namespace_properties", unsupported)
    kept = written(registry, interim_catalog, preservation=Preservation.FULL)
    theirs = written(laptop, interim_catalog)
    registry.store.transact(lambda conn: conn.execute(interim_tables.delete()))

    assert sweep(laptop, interim_catalog, "lake") == []
    assert [f"lake.{NAMESPACE}.{action.name}" for action in sweep(registry, interim_catalog, "lake")] == [kept.table]
    assert in_catalog(interim_catalog) == {theirs.table}
    with pytest.raises(UnmarkedNamespace, match=r"keeps no properties.*\[snowpack\] interim_namespace"):
        adopt(interim_catalog, "lake", NAMESPACE, laptop.store, VERA)


@pytest.mark.one_database
def test_a_new_store_adopts_the_namespace_and_the_leftovers_of_a_lost_one(
    registry: InterimRegistry, laptop: InterimRegistry, interim_catalog: Catalog
) -> None:
    lost, anew = registry.store.identity, laptop.store.identity
    old = written(registry, interim_catalog, preservation=Preservation.FULL)
    foreign = write_table(ROWS, TableName("lake", NAMESPACE, STRANGER), interim_catalog, lost)
    assert foreign.rows == 3

    assert adopt(interim_catalog, "lake", NAMESPACE, laptop.store, VERA) == lost
    assert adopt(interim_catalog, "lake", NAMESPACE, laptop.store, VERA) is None, "once is enough"

    new = written(laptop, interim_catalog)
    assert {action.name for action in sweep(laptop, interim_catalog, "lake")} == {old.table.rpartition(".")[2], STRANGER}
    assert in_catalog(interim_catalog) == {new.table}
    with pytest.raises(ForeignNamespace):
        written(registry, interim_catalog)
    assert adopt(interim_catalog, "lake", NAMESPACE, registry.store, VERA) == anew, "it was found again"
    assert ownership_of(interim_catalog, NAMESPACE, lost).before == {anew}


def test_a_copy_of_a_store_drops_none_of_its_originals_tables(
    registry: InterimRegistry, interim_store: Store, interim_catalog: Catalog
) -> None:
    ref, reported = written(registry, interim_catalog), ReportedRuns()
    with interim_store.engine.begin() as conn:
        conn.execute(sa.text("DELETE FROM store_facts WHERE name = 'store_id'"))
    del interim_store.identity  # as another process would see it

    collected = InterimLake(registry, interim_catalog).collect(reported)

    assert collected.dropped == ()
    [missing] = collected.missing
    assert "carries the id of another store" in missing.reason
    assert in_catalog(interim_catalog) == {ref.table}
    assert registry.tables() == []


@pytest.mark.one_database
def test_a_table_that_is_not_in_the_catalog_is_reported_and_its_files_stay(
    registry: InterimRegistry, interim_catalog: Catalog
) -> None:
    ref, reported = written(registry, interim_catalog), ReportedRuns()
    name = ref.table.removeprefix("lake.")
    table = interim_catalog.load_table(name)
    file = table.metadata_location
    interim_catalog.rename_table(name, "snowpack_interim.kept_by_somebody")

    collected = InterimLake(registry, interim_catalog).collect(reported)

    assert (collected.dropped, collected.failed) == ((), ())
    [missing] = collected.missing
    assert (str(missing.table.table), missing.reason) == (
        ref.table,
        "The catalog 'lake' no longer had it. Any files that are left were not touched.",
    )
    assert registry.tables() == []
    assert Path(file.removeprefix("file://")).exists()
    assert interim_catalog.load_table("snowpack_interim.kept_by_somebody").scan().to_arrow().num_rows == 3


def test_a_drop_that_was_killed_half_way_is_no_surprise_to_the_next_pass(
    registry: InterimRegistry, interim_catalog: Catalog
) -> None:
    ref, reported = written(registry, interim_catalog), ReportedRuns()
    lake = InterimLake(registry, interim_catalog)
    broken: list[str] = []

    def cut_short(folder: Folder) -> bool:
        broken.append(folder.name)
        raise OSError("the storage is away")

    with pytest.MonkeyPatch.context() as storage:
        storage.setattr(Folder, "delete", cut_short)
        assert [str(each.table.table) for each in lake.collect(reported).failed] == [ref.table]
    assert (broken, in_catalog(interim_catalog)) == ([ref.table.rpartition(".")[2]], set())
    assert registry.table(ref.table_id).state is TableState.DROPPING

    collected = lake.collect(reported)
    assert ([str(doomed.table) for doomed in collected.dropped], collected.missing) == ([ref.table], ())
