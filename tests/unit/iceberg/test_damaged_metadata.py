"""A table whose metadata names a snapshot that it does not have is damaged, and nothing takes it for an empty one."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from edited_metadata import edited_metadata

from airflow_snowpack.iceberg import ForeignFiles, MetadataReader, TableName, TableUnreadable, load_table, read_health
from airflow_snowpack.iceberg.arrivals import head_of
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.jobs.model import ActionOutcome, Job, JobStatus
from airflow_snowpack.maintenance import Action, SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    Flights = Callable[..., Table]
    Damage = Callable[[dict[str, Any]], Any]

NAME = TableName("lake", "db", "flights")
DAMAGES: dict[str, Damage] = {
    "current-snapshot-id is 7": lambda metadata: metadata.update({"current-snapshot-id": 7, "refs": {}}),
    "the branch 'main' is 7": lambda metadata: metadata["refs"]["main"].update({"snapshot-id": 7}),
    "the tag 'audit' is 7": lambda metadata: metadata["refs"].update(audit={"snapshot-id": 7, "type": "tag"}),
    "current-snapshot-id is None and the branch 'main' is at": lambda metadata: metadata.pop("current-snapshot-id"),
}


def damaged(flights: Flights, damage: Damage) -> Table:
    """The table as PyIceberg itself loads it."""
    table = flights(1, 2)
    with edited_metadata(table) as metadata:
        damage(metadata)
    return table.catalog.load_table(table.name())


@pytest.mark.parametrize("problem", DAMAGES)
def test_nothing_reads_it_as_an_empty_table(flights: Flights, problem: str) -> None:
    table = damaged(flights, DAMAGES[problem])

    def as_the_scheduler() -> Any:
        ((_, found),) = Broker(lambda: table.catalog).tables([NAME])
        raise found if isinstance(found, Exception) else AssertionError(found)

    for read in (
        lambda: load_table(table.catalog, NAME),
        as_the_scheduler,
        lambda: read_health(table, now=datetime.now(UTC)),
        lambda: MetadataReader(table),
    ):
        with pytest.raises(TableUnreadable) as refusal:
            read()
        assert f"the metadata is damaged: {problem}" in str(refusal.value)
        assert str(refusal.value).endswith(". Register the table again with an earlier metadata file.")


def test_whether_a_damaged_table_names_files_of_another_is_not_known(flights: Flights) -> None:
    table = damaged(flights, DAMAGES["current-snapshot-id is 7"])
    table.catalog.register_table("db.twin", table.metadata_location)

    foreign = ForeignFiles.of(table.catalog, TableName("lake", "db", "twin"))
    with pytest.raises(
        TableUnreadable, match=r"^The metadata of table 'db\.flights' cannot be read: ValueError: the metadata is damaged"
    ):
        foreign.named([table.metadata_location], [table.location()])


@pytest.mark.parametrize("action", Action)
def test_no_action_begins_on_it(flights: Flights, catalog: Catalog, action: Action) -> None:
    damaged(flights, DAMAGES["current-snapshot-id is 7"])
    never_used: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))  # no text reaches it

    for only_if_needed in (True, False):
        options = {action.value: {"only_if_needed": only_if_needed}}
        job = Job("j1", NAME, (action.value,), options, False, JobStatus.RUNNING, datetime.now(UTC))
        result = SparkEngine(lambda: never_used, lambda: catalog).run(job, action.value)

        assert (result.outcome, result.message) == (ActionOutcome.FAILED, "Failed before anything was done")
        assert "the metadata is damaged" in str(result.error)


def test_an_id_of_minus_one_is_an_empty_table_and_a_missing_parent_has_expired(flights: Flights) -> None:
    table = flights(1, 2)
    with edited_metadata(table) as metadata:
        first = metadata["snapshots"].pop(0)["snapshot-id"]
    expired = load_table(table.catalog, NAME)

    assert [snapshot.parent_snapshot_id for snapshot in expired.metadata.snapshots] == [first]
    assert head_of(expired).snapshot_id == expired.metadata.current_snapshot_id

    with edited_metadata(table) as metadata:
        metadata |= {"current-snapshot-id": -1, "refs": {}, "snapshots": []}
    assert read_health(load_table(table.catalog, NAME), now=datetime.now(UTC)).data_files == 0
