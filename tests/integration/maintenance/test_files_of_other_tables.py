"""No file that another table names is ever deleted, wherever that table says that it lives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from effort import rounds, seed
from python_procedures import expire, run_without_spark
from tangled_lake import DATABASE, SCHEMA, TangledLake, path_of

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import ForeignFiles, TableUnreadable
from airflow_snowpack.inventory import stored_footprints
from airflow_snowpack.maintenance import Action, ExpireSnapshots, RemoveOrphanFiles
from airflow_snowpack.maintenance.action_run import ActionEffect
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.model import ItemOutcome
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import open_store

if TYPE_CHECKING:
    from pyiceberg.table import Table

CATALOGS = rounds(50, soak=1000)
LATER = datetime.now(UTC) + timedelta(days=30)
"""All that a test has written is old enough by then."""
OPTIONS: dict[str, Any] = {
    Action.REMOVE_ORPHAN_FILES: RemoveOrphanFiles,
    Action.EXPIRE_SNAPSHOTS: lambda **given: ExpireSnapshots(**{"retain_last": 1, **given}),
}


@pytest.fixture
def records(sqlite_url: str) -> Iterator[Removals]:
    with open_store(sqlite_url) as store:
        yield Removals(store)


def maintain(
    lake: TangledLake, records: Removals, catalog: str, identifier: tuple[str, ...], action: str, **options: Any
) -> ActionEffect:
    """Run an action on a table as a worker does, up to the call of the procedure."""
    name = lake.table_name(catalog, identifier)
    memory = stored_footprints(records.store, name)
    run = run_without_spark(lake.catalogs[catalog], name, action, records, now=LATER, footprints=memory)
    effect: ActionEffect = OPTIONS[action](**options).run(run)
    return effect


@pytest.mark.one_database
@pytest.mark.parametrize("number", range(CATALOGS // 10))
def test_every_table_of_a_tangled_lake_reads_the_same_after_maintenance(
    number: int, tmp_path: Path, records: Removals, record_property: Callable[[str, object], None]
) -> None:
    """Ten lakes per case. Each runs orphan removal or expiry on some of its tables, and then reads all tables."""
    numbers = random.Random(seed(25) + number)
    done = dict.fromkeys(("refused", "removed", "kept"), 0)
    for each in range(10):
        lake = TangledLake(tmp_path / str(each), numbers)
        lake.build(operations=14)
        # The other database is known to the installation because maintenance has run there.
        for catalog in ("sea", "lake"):
            know(lake, records, catalog)
        before = lake.contents()
        for catalog, identifier in numbers.sample(lake.names, k=min(4, len(lake.names))):
            lake.log.append(f"maintain {catalog}.{identifier[-1]}")
            try:
                effect = maintain(lake, records, catalog, identifier, numbers.choice(list(OPTIONS)))
            except SnowpackError as refusal:
                lake.log.append(str(refusal))
                done["refused"] += 1
            else:
                lake.log.append(effect.message)
                done["removed"] += effect.metrics.get("removed_files_count", 0) + effect.metrics.get("expired_snapshots_count", 0)
                done["kept"] += sum(count for name, count in effect.metrics.items() if name.startswith("left_out"))
        lake.check(before)
        lake.close()
    record_property("measured", dict(done))
    assert done["removed"] > 0, "a guard that keeps everything proves nothing"


def know(lake: TangledLake, records: Removals, catalog: str, *, complete: bool = True) -> None:
    """Read the tables and views of a catalog as an earlier check of it has, or a preview."""
    some = lake.table_name(catalog, (DATABASE, "some"))
    ForeignFiles.of(lake.catalogs[catalog], some, stored_footprints(records.store, some), complete=complete)


# -- each case as it was seen ---------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[TangledLake]:
    made = TangledLake(tmp_path / "lake", random.Random(1))
    yield made
    made.close()


def table_in(lake: TangledLake, name: str, catalog: str = "lake", **options: Any) -> Table:
    """A table of two commits."""
    lake.catalogs[catalog].create_table((DATABASE, name), SCHEMA, **options)
    lake.names.append((catalog, (DATABASE, name)))
    for _ in range(2):
        lake.append(catalog, name)
    return lake.catalogs[catalog].load_table((DATABASE, name))


def moved(lake: TangledLake, name: str, location: str) -> None:
    from pyiceberg.table.update import SetLocationUpdate

    with lake.catalogs["lake"].load_table((DATABASE, name)).transaction() as change:
        change._apply((SetLocationUpdate(location=location),))
    lake.append("lake", name)


def a_table_where_another_was(lake: TangledLake) -> None:
    old = table_in(lake, "a").location()
    moved(lake, "a", f"{old}_moved")
    table_in(lake, "f", location=old)


def a_table_under_the_name_of_one_that_was_renamed_and_moved(lake: TangledLake) -> None:
    old = table_in(lake, "f").location()
    lake.catalogs["lake"].rename_table((DATABASE, "f"), (DATABASE, "g"))
    lake.names[-1] = ("lake", (DATABASE, "g"))
    moved(lake, "g", f"{old}_moved")
    table_in(lake, "f", location=old)


def data_that_was_sent_into_another_table(lake: TangledLake) -> None:
    place = table_in(lake, "f").location()
    table_in(lake, "c", properties={"write.data.path": f"{place}/guests"})
    with lake.catalogs["lake"].load_table((DATABASE, "c")).transaction() as change:
        change.remove_properties("write.data.path")


def metadata_that_was_sent_into_another_table(lake: TangledLake) -> None:
    place = table_in(lake, "f").location()
    table_in(lake, "c", properties={"write.metadata.path": f"{place}/guests"})
    with lake.catalogs["lake"].load_table((DATABASE, "c")).transaction() as change:
        change.remove_properties("write.metadata.path")


def files_that_were_added_to_another_table(lake: TangledLake) -> None:
    giver = table_in(lake, "f")
    files = [task.file.file_path for task in giver.scan().plan_files()]
    giver.overwrite(pa.table({"id": [0]}, schema=SCHEMA))
    expire(giver.refresh(), [each.snapshot_id for each in giver.metadata.snapshots[:-1]], keep_files=True)
    table_in(lake, "c").add_files(files)


def a_link_to_the_data_of_another_table(lake: TangledLake) -> None:
    target, folder = table_in(lake, "c").location(), table_in(lake, "f").location()
    (path_of(folder) / "archive").symlink_to(path_of(target) / "data")


def a_link_to_its_own_data(lake: TangledLake) -> None:
    folder = path_of(table_in(lake, "f").location())
    (folder / "archive").symlink_to(folder / "data")


def a_data_folder_that_is_a_link_into_another_table(lake: TangledLake) -> None:
    guests, place = path_of(table_in(lake, "f").location()) / "guests", lake.folder / "warehouse" / "linked"
    guests.mkdir()
    place.mkdir()
    (place / "data").symlink_to(guests)
    table_in(lake, "c", location=f"file://{place}")


def a_move_from_a_link_to_the_place_behind_it(lake: TangledLake) -> None:
    real = lake.folder / "warehouse" / "real"
    real.mkdir(parents=True)
    (lake.folder / "warehouse" / "link").symlink_to(real)
    table_in(lake, "f", location=f"file://{lake.folder}/warehouse/link/f")
    moved(lake, "f", f"file://{real}/f")


def a_view_under_the_name_of_one_that_was_renamed(lake: TangledLake) -> None:
    lake.create_view(table_in(lake, "f").location())


CASES = (
    a_view_under_the_name_of_one_that_was_renamed,
    a_data_folder_that_is_a_link_into_another_table,
    a_move_from_a_link_to_the_place_behind_it,
    a_table_where_another_was,
    a_table_under_the_name_of_one_that_was_renamed_and_moved,
    data_that_was_sent_into_another_table,
    metadata_that_was_sent_into_another_table,
    files_that_were_added_to_another_table,
    a_link_to_the_data_of_another_table,
    a_link_to_its_own_data,
)


@pytest.mark.one_database
@pytest.mark.parametrize("follow_symlinks", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_orphans_go_and_files_that_another_table_names_stay(
    case: Callable[[TangledLake], None], follow_symlinks: bool, lake: TangledLake, records: Removals
) -> None:
    case(lake)
    stray = path_of(lake.catalogs["lake"].load_table((DATABASE, "f")).location()) / "data" / "stray.parquet"
    stray.write_bytes(b"stray")
    lake.age()
    before = lake.contents()

    effect = maintain(lake, records, "lake", (DATABASE, "f"), Action.REMOVE_ORPHAN_FILES, follow_symlinks=follow_symlinks)

    lake.check(before)
    assert effect.metrics["removed_files_count"] >= 1
    assert not stray.exists()


@pytest.mark.one_database
def test_a_metadata_file_whose_name_is_used_again_is_read_again(lake: TangledLake) -> None:
    """As in the REST catalog of SeaweedFS, where each table begins with v1.metadata.json."""
    catalog, place = lake.catalogs["lake"], table_in(lake, "f").location()
    reused = path_of(place) / "metadata" / "v1.metadata.json"
    read: dict[str, frozenset[str]] = {}
    for number in range(2):
        table = table_in(lake, f"c{number}", properties={"write.data.path": f"{place}/guests"})
        reused.write_bytes(path_of(table.metadata_location).read_bytes())
        catalog.register_table((DATABASE, "again"), f"file://{reused}")
        catalog.drop_table(table.name())
        files = [task.file.file_path for task in table.scan().plan_files()]
        foreign = ForeignFiles.of(catalog, lake.table_name("lake", (DATABASE, "f")), read=read)
        assert foreign.named(files, [place]) == dict.fromkeys(files, "db.again")
        catalog.drop_table((DATABASE, "again"))


@pytest.mark.one_database
@pytest.mark.parametrize("other", ["pond", "sea"])
def test_a_table_of_another_catalog_in_the_same_place_refuses_the_removal_with_both_names(
    other: str, lake: TangledLake, records: Removals
) -> None:
    """Two catalog names with one warehouse: in one database, and in two."""
    table_in(lake, "f", other)
    know(lake, records, other)
    table_in(lake, "f")
    lake.age()
    before = lake.contents()

    with pytest.raises(RemovalRefused) as refusal:
        maintain(lake, records, "lake", (DATABASE, "f"), Action.REMOVE_ORPHAN_FILES)

    lake.check(before)
    assert "lake.db.f" in str(refusal.value) or "db.f keeps its own" in str(refusal.value)
    assert f"{other}.db.f" in str(refusal.value)


@pytest.mark.one_database
def test_files_of_a_table_that_a_preview_alone_has_read_stay(lake: TangledLake, records: Removals) -> None:
    """A preview of another catalog reads no manifests; its table has data in this one."""
    place = table_in(lake, "f").location()
    table_in(lake, "c", "sea", properties={"write.data.path": f"{place}/guests"})
    with lake.catalogs["sea"].load_table((DATABASE, "c")).transaction() as change:
        change.remove_properties("write.data.path")
    know(lake, records, "sea", complete=False)
    lake.age()
    before = lake.contents()

    maintain(lake, records, "lake", (DATABASE, "f"), Action.REMOVE_ORPHAN_FILES)

    lake.check(before)
    memory = stored_footprints(records.store, lake.table_name("lake", (DATABASE, "f")))
    assert memory is not None
    known = {other.key.identifier[-1]: other.footprint for other in memory.read("").elsewhere if other.key.catalog == "sea"}
    assert known["c"] is not None
    assert known["c"].is_complete, "the next check reads no manifests of it"


@pytest.mark.one_database
def test_an_expiry_whose_commit_deletes_the_metadata_of_a_second_registration_is_refused(
    lake: TangledLake, records: Removals
) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    first = table_in(lake, "f", properties=properties)
    lake.catalogs["lake"].register_table((DATABASE, "twin"), first.metadata_location)
    lake.names.append(("lake", (DATABASE, "twin")))
    lake.append("lake", "f")
    lake.append("lake", "f")
    before = lake.contents()

    effect = maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS)

    lake.check(before)
    assert effect.metrics["expired_snapshots_count"] == 0
    assert "deletes old metadata files (write.metadata.delete-after-commit.enabled), and the table db.twin names one" in str(
        effect.error
    )


@pytest.mark.one_database
@pytest.mark.parametrize("other", ["lake", "pond", "sea"])
def test_an_expiry_leaves_out_the_snapshots_whose_files_a_second_registration_names(
    other: str, lake: TangledLake, records: Removals
) -> None:
    first = table_in(lake, "f")
    lake.catalogs[other].register_table((DATABASE, "twin"), first.metadata_location)
    lake.names.append((other, (DATABASE, "twin")))
    know(lake, records, other)
    for _ in range(3):
        lake.append("lake", "f")
    before = lake.contents()

    effect = maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS)

    lake.check(before)
    assert effect.metrics["expired_snapshots_count"] == 2, "those that the second registration does not have"
    assert effect.metrics["left_out_snapshots_count"] == 2
    (removal,) = records.list(table=lake.table_name("lake", (DATABASE, "f"))).items
    label = {"lake": "db.twin", "pond": "pond.db.twin", "sea": f"sea.db.twin of the catalog sea@{lake.configs['sea'].catalog_id}"}
    kept = {item.reason for item in records.items(removal.removal_id) if item.outcome is ItemOutcome.LEFT_OUT}
    assert kept == {f"the table {label[other]} names files of it"}


@pytest.mark.one_database
def test_a_table_that_was_never_read_and_cannot_be_read_refuses_an_expiry(lake: TangledLake, records: Removals) -> None:
    table_in(lake, "f")
    newer = path_of(table_in(lake, "newer").metadata_location)
    newer.write_text(newer.read_text().replace('"format-version":2', '"format-version":9'))

    effect = maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS)

    assert effect.metrics["expired_snapshots_count"] == 0
    assert "is not known: db.newer (its metadata cannot be read" in str(effect.error)


@pytest.mark.one_database
@pytest.mark.parametrize("lost", ["metadata", "manifest list", "manifest"])
def test_a_table_that_has_lost_metadata_stops_no_expiry_far_away(lost: str, lake: TangledLake, records: Removals) -> None:
    table_in(lake, "f")
    broken = table_in(lake, "broken")
    snapshot = broken.current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(broken.io)[0].manifest_path
    path_of({"metadata": broken.metadata_location, "manifest list": snapshot.manifest_list, "manifest": manifest}[lost]).unlink()

    assert maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS).metrics["expired_snapshots_count"] == 1


@pytest.mark.one_database
def test_a_table_that_has_lost_a_manifest_stops_what_deletes_near_it(lake: TangledLake, records: Removals) -> None:
    first = table_in(lake, "f")
    lake.catalogs["lake"].register_table((DATABASE, "twin"), first.metadata_location)
    lake.append("lake", "twin")
    snapshot = lake.catalogs["lake"].load_table((DATABASE, "twin")).current_snapshot()
    assert snapshot is not None
    path_of(snapshot.manifest_list).unlink()
    lake.append("lake", "f")

    with pytest.raises(TableUnreadable, match=r"db\.twin"):
        maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS)


@pytest.mark.one_database
def test_a_table_that_was_read_far_away_and_cannot_be_read_now_does_not_stop_expiries(
    lake: TangledLake, records: Removals
) -> None:
    table_in(lake, "f")
    broken = table_in(lake, "broken")
    know(lake, records, "lake")
    lake.append("lake", "broken")
    path_of(lake.catalogs["lake"].load_table((DATABASE, "broken")).metadata_location).unlink()

    assert maintain(lake, records, "lake", (DATABASE, "f"), Action.EXPIRE_SNAPSHOTS).metrics["expired_snapshots_count"] == 1
    with pytest.raises(RemovalRefused, match=r"db\.broken \(its metadata cannot be read"):
        maintain(lake, records, "lake", (DATABASE, "f"), Action.REMOVE_ORPHAN_FILES)
    assert broken.metadata_location
