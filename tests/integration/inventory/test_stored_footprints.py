"""Before orphan files are removed: which tables are loaded, and that a table which appeared or moved a moment ago counts."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from counted_reads import counted_reads
from rest_catalog import METADATA_FILE, FakeRestCatalog, rest_catalog

from airflow_snowpack.iceberg import CatalogConfig, ForeignFiles, LocationConflict, Relation, TableName, location_conflicts
from airflow_snowpack.iceberg.footprints import AT_ONCE, other_tables, read_footprint
from airflow_snowpack.inventory import CatalogNotRemembered, forget_catalog, stored_footprints
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.submit import MaintenanceRequest, dry_run
from airflow_snowpack.store import Actor, Store, StoreUnreachable, open_store
from airflow_snowpack.store.tables.jobs import table_locations

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

Conflicts = Callable[..., tuple[LocationConflict, ...]]

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
CATALOG_ID = "a1b2c3d4e5f6"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(store_url, clock=lambda: NOW) as store:
        yield store


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Four tables side by side."""
    loaded = CatalogConfig.embedded(tmp_path).load()
    loaded.create_namespace("db")
    for name in ("flights", "airports", "carriers", "planes"):
        create(loaded, name)
    return loaded


@pytest.fixture
def loads(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tables that the catalog has loaded, in order."""
    loaded: list[str] = []
    really = type(catalog).load_table

    def load(self: Catalog, identifier: tuple[str, ...]) -> Table:
        loaded.append(identifier[-1])
        return really(self, identifier)

    monkeypatch.setattr(type(catalog), "load_table", load)
    return loaded


@pytest.fixture
def conflicts(store: Store, catalog: Catalog, loads: list[str]) -> Conflicts:
    """The conflicts of ``db.flights`` as a process finds them; ``loads`` has the loads of this call alone."""

    def find(**options: Any) -> tuple[LocationConflict, ...]:
        loads.clear()
        return location_conflicts(catalog, flights(), stored_footprints(store, flights()), **options)

    return find


def flights(catalog_id: str = CATALOG_ID) -> TableName:
    return TableName("lake", "db", "flights", catalog_id)


def create(catalog: Catalog, name: str, **options: Any) -> Table:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    return catalog.create_table(("db", name), Schema(NestedField(1, "id", LongType(), required=False)), **options)


def append(catalog: Catalog, name: str, *ids: int) -> None:
    import pyarrow as pa

    catalog.load_table(("db", name)).append(pa.table({"id": pa.array(ids, pa.int64())}))


def set_properties(catalog: Catalog, name: str, **properties: str) -> None:
    with catalog.load_table(("db", name)).transaction() as change:
        change.set_properties(properties)


def location_of(catalog: Catalog, name: str = "flights") -> str:
    return catalog.load_table(("db", name)).location()


def test_a_table_whose_metadata_has_not_changed_is_loaded_once(
    conflicts: Conflicts, catalog: Catalog, loads: list[str], store: Store
) -> None:
    assert conflicts() == ()
    assert loads == ["flights", "airports", "carriers", "planes"]

    for number in range(5):
        create(catalog, f"more_{number}")
    conflicts()
    assert conflicts() == ()
    assert loads == ["flights"], "the table itself, however many others there are"

    set_properties(catalog, "planes", comment="a commit")
    conflicts()
    assert loads == ["flights", "planes"]


def test_a_check_for_another_table_loads_what_no_check_has_loaded(
    conflicts: Conflicts, catalog: Catalog, loads: list[str], store: Store
) -> None:
    conflicts()
    loads.clear()
    planes = TableName("lake", "db", "planes", CATALOG_ID)

    location_conflicts(catalog, planes, stored_footprints(store, planes))

    assert loads == ["planes", "flights"]


def create_inside(catalog: Catalog) -> None:
    create(catalog, "guest", location=f"{location_of(catalog)}/guest")


def move_inside(catalog: Catalog) -> None:
    set_properties(catalog, "planes", **{"write.data.path": f"{location_of(catalog)}/planes"})


def replace_around(catalog: Catalog) -> None:
    catalog.drop_table(("db", "planes"))
    create(catalog, "planes", location=f"{location_of(catalog)}/..")


@pytest.mark.parametrize(
    ("change", "table", "relation"),
    [
        (create_inside, "db.guest", Relation.INSIDE),
        (move_inside, "db.planes", Relation.INSIDE),
        (replace_around, "db.planes", Relation.AROUND),
    ],
)
def test_a_table_that_was_created_moved_or_replaced_a_moment_ago_conflicts_and_again_from_the_store(
    conflicts: Conflicts, catalog: Catalog, loads: list[str], change: Callable[[Catalog], None], table: str, relation: Relation
) -> None:
    conflicts()
    change(catalog)

    (conflict,) = conflicts()
    assert (conflict.table, conflict.relation) == (table, relation)
    assert conflicts() == (conflict,)
    assert loads == ["flights"]


def test_a_table_that_was_renamed_a_moment_ago_conflicts(conflicts: Conflicts, catalog: Catalog) -> None:
    create(catalog, "guest", location=location_of(catalog))
    assert [conflict.table for conflict in conflicts()] == ["db.guest"]
    catalog.rename_table(("db", "guest"), ("db", "visitor"))

    assert [conflict.table for conflict in conflicts()] == ["db.visitor"]


def test_a_table_that_is_gone_conflicts_no_more_and_is_forgotten(conflicts: Conflicts, catalog: Catalog, store: Store) -> None:
    create(catalog, "guest", location=location_of(catalog))
    assert conflicts()
    catalog.drop_table(("db", "guest"))

    assert conflicts() == ()
    memory = stored_footprints(store, flights())
    assert [key.identifier[-1] for key in sorted(memory.read("").own)] == ["airports", "carriers", "planes"]


def test_a_table_that_moves_away_is_compared_where_its_files_were_chosen(conflicts: Conflicts, catalog: Catalog) -> None:
    chosen = location_of(catalog)
    create(catalog, "guest", location=f"{chosen}/guest")
    catalog.drop_table(("db", "flights"))
    create(catalog, "flights", location=f"{chosen}_moved")

    assert conflicts() == ()
    assert [conflict.table for conflict in conflicts(location=chosen)] == ["db.guest"]


def test_manifests_are_read_once_and_after_a_commit_only_the_new_ones(conflicts: Conflicts, catalog: Catalog) -> None:
    for name, count in (("planes", 3), ("carriers", 1)):
        for number in range(count):
            append(catalog, name, number)
    with counted_reads() as first:
        conflicts()
    with counted_reads() as unchanged:
        conflicts()
    append(catalog, "planes", 3)
    with counted_reads() as changed:
        conflicts()

    assert len(set(first.manifests)) == len(first.manifests) == 4, "each manifest of all snapshots, once"
    assert unchanged.manifests == []
    assert len(changed.manifests) == 1


@pytest.mark.one_database
def test_a_preview_reads_no_manifests_of_tables_that_no_check_has_read(
    conflicts: Conflicts, catalog: Catalog, loads: list[str]
) -> None:
    append(catalog, "planes", 1)
    with counted_reads() as preview:
        conflicts(trust_since=NOW - timedelta(hours=1))

    assert preview.manifests == []
    with counted_reads() as check:
        conflicts()
    assert len(check.manifests) == 1
    assert loads == ["flights", "airports", "carriers", "planes"], "what a preview has read is not enough to delete files"


@pytest.mark.one_database
def test_a_table_that_was_moved_keeps_its_former_places(catalog: Catalog, store: Store) -> None:
    from pyiceberg.table.update import SetLocationUpdate

    append(catalog, "planes", 1)
    old = location_of(catalog, "planes")
    with catalog.load_table(("db", "planes")).transaction() as change:
        change._apply((SetLocationUpdate(location=f"{old}_2"),))
    append(catalog, "planes", 2)

    footprint = read_footprint(catalog.load_table(("db", "planes")))

    assert footprint.present == (f"{old}_2",)
    assert footprint.former == (f"{old}/data", f"{old}/metadata")


@pytest.mark.one_database
def test_a_later_footprint_continues_an_earlier_one_of_the_same_table_alone(catalog: Catalog) -> None:
    table = catalog.load_table(("db", "planes"))
    append(catalog, "planes", 1)
    before = read_footprint(catalog.load_table(("db", "planes")))
    set_properties(catalog, "planes", **{"write.data.path": f"{table.location()}_data"})
    append(catalog, "planes", 2)
    catalog.drop_table(("db", "carriers"))
    create(catalog, "carriers")
    append(catalog, "carriers", 3)

    after = read_footprint(catalog.load_table(("db", "planes")), before)
    other = read_footprint(catalog.load_table(("db", "carriers")), before)

    assert after.places == (table.location(), f"{table.location()}_data")
    assert other.places == (location_of(catalog, "carriers"),)


@pytest.mark.one_database
def test_the_footprint_of_a_table_that_was_registered_with_earlier_metadata_is_read_from_the_start(catalog: Catalog) -> None:
    append(catalog, "planes", 1)
    table = catalog.load_table(("db", "planes"))
    earlier = table.metadata_location
    append(catalog, "planes", 2)
    before = read_footprint(catalog.load_table(("db", "planes")))
    catalog.drop_table(("db", "planes"))
    catalog.register_table(("db", "planes"), earlier)
    set_properties(catalog, "planes", **{"write.data.path": f"{table.location()}_elsewhere"})
    append(catalog, "planes", 3)
    with catalog.load_table(("db", "planes")).transaction() as change:
        change.remove_properties("write.data.path")

    after = read_footprint(catalog.load_table(("db", "planes")), before)

    assert after.places == (table.location(), f"{table.location()}_elsewhere")


@pytest.mark.one_database
def test_a_table_that_is_renamed_while_the_tables_are_read_is_read_under_its_new_name(
    conflicts: Conflicts, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(catalog, "zebras", location=f"{location_of(catalog)}/zebras")
    load = type(catalog).load_table

    def renamed_first(self: Catalog, identifier: tuple[str, ...]) -> Table:
        if identifier[-1] == "airports" and self.table_exists(("db", "zebras")):
            self.rename_table(("db", "zebras"), ("db", "quaggas"))
        return load(self, identifier)

    monkeypatch.setattr(type(catalog), "load_table", renamed_first)

    assert [conflict.table for conflict in conflicts()] == ["db.quaggas"]


@pytest.mark.one_database
def test_a_table_whose_files_are_in_many_folders_has_few_places(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr("airflow_snowpack.iceberg.footprints.MAX_PLACES", 3)
    table = catalog.load_table(("db", "planes"))
    files = [tmp_path / "landing" / f"day={number % 5}" / f"hour={number}" / "part.parquet" for number in range(10)]
    for file in files:
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), file)
    table.add_files([f"file://{file}" for file in files])

    assert read_footprint(catalog.load_table(("db", "planes"))).former == (f"file://{tmp_path}/landing",)


def test_the_tables_of_another_catalog_name_of_the_database_conflict(conflicts: Conflicts, catalog: Catalog) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    pond = SqlCatalog("pond", **catalog.properties)
    pond.create_namespace("db")
    create(pond, "guest", location=f"{location_of(catalog)}/guest")

    (conflict,) = conflicts()

    assert (conflict.table, conflict.relation) == ("pond.db.guest", Relation.INSIDE)
    pond.close()


def test_a_table_of_another_catalog_of_the_installation_conflicts_until_its_catalog_is_forgotten(
    conflicts: Conflicts, catalog: Catalog, store: Store, tmp_path: Path
) -> None:
    """This process cannot list the other catalog: what an earlier check of it has read counts."""
    sea = CatalogConfig.sqlite("sea", tmp_path / "other.db", warehouse=f"file://{tmp_path}/sea")
    loaded = sea.load()
    loaded.create_namespace("db")
    for name in ("boats", "guest"):
        create(loaded, name, location=f"{location_of(catalog)}/{name}" if name == "guest" else None)
    boats = TableName("sea", "db", "boats", sea.catalog_id)
    location_conflicts(loaded, boats, stored_footprints(store, boats))
    loaded.close()

    (conflict,) = conflicts()

    assert conflict.table == f"sea.db.guest of the catalog sea@{sea.catalog_id}"
    assert f"tables forget-catalog sea@{sea.catalog_id}" in str(conflict)
    assert forget_catalog(store, f"sea@{sea.catalog_id}", actor=Actor("vera", "cli")) == 1
    assert conflicts() == ()
    with pytest.raises(CatalogNotRemembered, match=r"no tables of a catalog 'sea'\. Known are: lake@"):
        forget_catalog(store, "sea", actor=Actor("vera", "cli"))


@pytest.mark.one_database
def test_a_catalog_in_another_schema_of_the_database_is_another_catalog(
    store: Store, empty_postgres_database: str, tmp_path: Path
) -> None:
    """Each of two users of a database has a schema, so neither catalog lists the tables of the other one."""
    url = sa.make_url(empty_postgres_database)
    with sa.create_engine(url).begin() as conn:
        for name in ("lake", "pond"):
            conn.execute(sa.text(f"CREATE SCHEMA {name}"))
    for name, checked in (("pond", "planes"), ("lake", "flights")):
        config = CatalogConfig.postgres(
            name,
            host=url.host or "",
            port=url.port or 5432,
            user=url.username,
            password=url.password,
            database=f"{url.database}?options=-csearch_path%3D{name}",
            warehouse=f"file://{tmp_path}/warehouse",
        )
        loaded = config.load()
        loaded.create_namespace("db")
        for table in ("flights", "planes"):
            create(loaded, table)
        this = TableName(name, "db", checked, config.catalog_id)
        found = location_conflicts(loaded, this, stored_footprints(store, this))
        loaded.close()

    assert [(conflict.table.partition("@")[0], conflict.relation) for conflict in found] == [
        ("pond.db.flights of the catalog pond", Relation.SAME)
    ]


@pytest.mark.one_database
def test_a_row_that_another_version_has_written_is_read(conflicts: Conflicts, catalog: Catalog, store: Store) -> None:
    create(catalog, "guest", location=location_of(catalog))
    conflicts()
    row = store.all(sa.select(table_locations).where(table_locations.c.identifier.contains("guest")))[0]
    footprint = {name: value for name, value in row.footprint.items() if name != "is_view"} | {"shape": "round"}
    store.execute(sa.update(table_locations).where(table_locations.c.identifier == row.identifier).values(footprint=footprint))

    assert [conflict.table for conflict in conflicts()] == ["db.guest"]


@pytest.mark.one_database
def test_a_table_that_cannot_be_read_conflicts_each_time(conflicts: Conflicts, catalog: Catalog, loads: list[str]) -> None:
    table = create(catalog, "broken")
    Path(table.metadata_location.removeprefix("file://")).unlink()

    for _ in range(2):
        (conflict,) = conflicts()
        assert (conflict.table, conflict.relation) == ("db.broken", None)
        assert "broken" in loads


@pytest.mark.one_database
def test_a_metadata_file_whose_name_may_be_used_again_is_read_each_time(
    conflicts: Conflicts, catalog: Catalog, loads: list[str]
) -> None:
    table = create(catalog, "guest", location=location_of(catalog))
    elsewhere = catalog.load_table(("db", "planes")).metadata_location
    hadoop = str(Path(elsewhere).parent / "v1.metadata.json")
    shutil.copy(elsewhere.removeprefix("file://"), hadoop.removeprefix("file:"))
    catalog.drop_table(("db", "guest"))
    catalog.register_table(("db", "guest"), hadoop)
    assert conflicts() == ()

    shutil.copy(table.metadata_location.removeprefix("file://"), hadoop.removeprefix("file:"))

    assert [conflict.table for conflict in conflicts()] == ["db.guest"]


@pytest.mark.one_database
def test_two_names_that_read_the_same_are_two_tables(conflicts: Conflicts, catalog: Catalog, loads: list[str]) -> None:
    catalog.create_namespace("db.a")
    schema = catalog.load_table(("db", "planes")).schema()
    catalog.create_table(("db", "a", "b"), schema)
    catalog.create_table(("db", "a.b"), schema, location=location_of(catalog))

    assert [conflict.relation for conflict in conflicts()] == [Relation.SAME]
    assert [conflict.relation for conflict in conflicts()] == [Relation.SAME]
    assert loads == ["flights"]


def test_another_catalog_of_the_same_name_has_locations_of_its_own(
    conflicts: Conflicts, catalog: Catalog, loads: list[str], store: Store
) -> None:
    conflicts()
    loads.clear()

    location_conflicts(catalog, flights("0f0f0f0f0f0f"), stored_footprints(store, flights("0f0f0f0f0f0f")))

    assert len(loads) == 4
    assert stored_footprints(store, flights("")) is None, "a catalog without an identity could be any of that name"


@pytest.mark.one_database
def test_a_view_is_not_loaded_as_a_table(conflicts: Conflicts, catalog: Catalog, loads: list[str]) -> None:
    import sqlalchemy as sa
    from pyiceberg.catalog.sql import SqlCatalog

    assert isinstance(catalog, SqlCatalog)
    with catalog.engine.begin() as conn:
        conn.execute(sa.text("UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name = 'planes'"))

    conflicts()

    assert loads == ["flights", "airports", "carriers"]


def test_a_first_check_that_is_cut_short_goes_on_where_it_was(
    conflicts: Conflicts, catalog: Catalog, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_snowpack.iceberg.footprints.BATCH_SIZE", 2)
    load = type(catalog).load_table

    def killed(self: Catalog, identifier: tuple[str, ...]) -> Table:
        if identifier[-1] == "planes":
            raise KeyboardInterrupt
        return load(self, identifier)

    with monkeypatch.context() as patch:
        patch.setattr(type(catalog), "load_table", killed)
        with pytest.raises(KeyboardInterrupt):
            conflicts()
    conflicts()

    assert loads == ["flights", "planes"]


@pytest.mark.one_database
def test_without_the_store_every_table_is_loaded(
    conflicts: Conflicts,
    catalog: Catalog,
    loads: list[str],
    store: Store,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(_work: object) -> None:
        raise StoreUnreachable("somewhere", OSError("gone"))

    create(catalog, "guest", location=location_of(catalog))
    conflicts()
    monkeypatch.setattr(store, "read", away)
    monkeypatch.setattr(store, "transact", away)

    assert [conflict.table for conflict in conflicts()] == ["db.guest"]
    assert len(loads) == 5
    assert "table_footprints_not_read" in caplog.text
    assert "table_footprints_not_kept" in caplog.text


# -- a catalog that does not list metadata locations ----------------------------------------------------------------------


@pytest.fixture
def rest() -> Iterator[FakeRestCatalog]:
    with rest_catalog() as catalog:
        catalog.tables = {("db",): ["flights", "airports", "planes"]}
        yield catalog


@pytest.mark.one_database
def test_a_rest_catalog_loads_every_table_before_files_are_deleted(rest: FakeRestCatalog, store: Store) -> None:
    catalog = CatalogConfig.rest("lake", rest.url).load()

    def loaded(**options: Any) -> list[str]:
        rest.requests.clear()
        location_conflicts(catalog, flights(), stored_footprints(store, flights()), **options)
        return sorted(path.split("/tables/")[1].split("?")[0] for path in rest.requests if "/tables/" in path)

    everything = ["airports", "flights", "planes"]
    assert loaded() == everything
    assert [path.partition("?")[2] for path in rest.requests if "/airports" in path or "/planes" in path] == [
        "snapshots=refs"
    ] * 2
    assert loaded() == everything
    assert loaded(trust_since=NOW + timedelta(seconds=1)) == everything
    assert loaded(trust_since=NOW - timedelta(hours=1)) == ["flights"]
    rest.tables["db",].append("guest")
    assert loaded(trust_since=NOW - timedelta(hours=1)) == ["flights", "guest"], "a new table is in the list of names"


@pytest.mark.one_database
def test_the_2000_tables_of_a_rest_catalog_are_one_request_each_and_eight_at_once(rest: FakeRestCatalog, store: Store) -> None:
    rest.tables = {("db",): [f"t{number}" for number in range(2_000)]}
    rest.together = AT_ONCE
    catalog = CatalogConfig.rest("lake", rest.url).load()
    rest.requests.clear()

    others, _ = other_tables(catalog, flights(), stored_footprints(store, flights()), complete=False)

    assert len(others) == 2_000
    assert all(other.is_current for other in others)
    loads = Counter(path.partition("?")[0] for path in rest.requests if "/tables/" in path)
    assert set(loads.values()) == {1}
    assert len(rest.requests) == 2_000 + 3, "the namespaces, those below, and the list of tables"
    assert rest.most_at_once == AT_ONCE


@pytest.mark.one_database
def test_the_file_of_a_view_of_a_rest_catalog_is_named(rest: FakeRestCatalog, store: Store) -> None:
    rest.views = {("db",): ["busiest"]}
    catalog = CatalogConfig.rest("lake", rest.url, properties={"view-endpoints-supported": "true"}).load()
    rest.tables = {("db",): ["flights"]}
    file, place = f"/nowhere/busiest/metadata/{METADATA_FILE}", "file:///nowhere/busiest"

    for _ in range(2):
        foreign = ForeignFiles.of(catalog, flights(), stored_footprints(store, flights()))
        assert foreign.conflicts(place) == ()
        assert foreign.named([file, f"{place}/metadata/other.json"], [place]) == {file: "db.busiest (a view)"}


# -- a dry run ------------------------------------------------------------------------------------------------------------


def test_a_dry_run_of_orphan_removal_loads_what_has_changed(catalog: Catalog, loads: list[str], store: Store) -> None:
    request = MaintenanceRequest.parse("db.flights", ["remove_orphan_files"], catalog="lake", catalog_id=CATALOG_ID)
    jobs = Jobs(store)
    dry_run(jobs, catalog, request)
    first = sorted(set(loads))
    loads.clear()

    job = dry_run(jobs, catalog, request)

    assert first == ["airports", "carriers", "flights", "planes"]
    assert loads == ["flights"]
    assert job.results[0].message == "Would remove no orphan files"
