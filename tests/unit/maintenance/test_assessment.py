"""The walk over a catalog: each table is a row, whatever it is, and no more are read at a time than allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from edited_metadata import edited_metadata
from made_health import made_health
from table_zoo import KINDS, UNREADABLE_KINDS, Zoo

from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.maintenance.assessment import ResumeFile, UnusableResumeFile, Walk
from airflow_snowpack.maintenance.assessment.model import State, TableAssessment
from airflow_snowpack.maintenance.planning import ActionVerdict, Cause, Decision, Estimate
from airflow_snowpack.maintenance.policies import Policies, Rule

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


EAGER = Policies(
    [Rule("**", actions={"rewrite_data_files": {"thresholds": {"small_files": 2}, "options": {"min_input_files": 2}}})]
)
FEW = ("unpartitioned", "evolved_spec", "position_deletes", "format_version_1")


def clock() -> datetime:
    return datetime.now(UTC)


def walk(zoo: Zoo, concurrency: int = 8) -> Walk:
    return Walk(lambda: zoo.catalog, EAGER, clock, concurrency=concurrency)


def test_every_kind_of_table_is_a_row(zoo: Zoo) -> None:
    found = walk(zoo).assess("lake", [zoo.shared(kind) for kind in (*KINDS, *UNREADABLE_KINDS)])

    assert {row.table for row in found.of(State.UNREADABLE)} == {f"zoo.{kind}" for kind in UNREADABLE_KINDS}
    assert len(found.rows) == len(KINDS) + len(UNREADABLE_KINDS)
    assert {"zoo.healthy", "zoo.never_written", "zoo.emptied"} <= {row.table for row in found.of(State.HEALTHY)}
    assert all(row.files_saved > 0 for row in found.in_need if "rewrite_data_files" in {need.action for need in row.needs})


def test_the_manifests_that_the_rewrite_of_files_merges_count_as_saved() -> None:
    """120 manifests: the rewrite of files leaves 10, and the rewrite of manifests one."""
    estimate = Estimate(files_removed=10, files_added=1)
    need = Decision("rewrite_manifests", ActionVerdict.RUN, Cause.NEEDED, "120 of 120 manifests small", estimate=estimate)

    row = TableAssessment("db.events", health=made_health(data_manifests=120, delete_manifests=0), needs=(need,))

    assert row.savings == ("119 of 120 manifests",)


def test_sick_tables_come_first_and_the_sickest_on_top(zoo: Zoo) -> None:
    found = walk(zoo).assess("lake", [zoo.shared(kind) for kind in (*FEW, "healthy", "missing_manifest")])

    scores = [row.score for row in found.in_need]
    assert scores == sorted(scores, key=lambda score: score or 0)
    assert [row.state for row in found.rows] == [State.NEEDS_MAINTENANCE] * len(found.in_need) + [State.UNREADABLE, State.HEALTHY]


def test_a_table_that_was_dropped_since_the_listing_is_a_row(zoo: Zoo) -> None:
    [row] = walk(zoo).assess("lake", [zoo.named("dropped")]).rows

    assert row.problem is not None
    assert row.problem.startswith("The catalog 'lake' has no table 'zoo.dropped'.")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_tables_are_read_at_a_time_than_allowed(zoo: Zoo, concurrency: int) -> None:
    meter = Meter(zoo.catalog)

    Walk(lambda: meter, EAGER, clock, concurrency=concurrency).assess("lake", [zoo.shared(kind) for kind in FEW * 3])  # type: ignore[arg-type, return-value]

    assert 1 <= meter.most <= concurrency


class Meter:
    """A catalog that counts how many tables are loaded at the same time."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = catalog.name
        self._load, self._lock, self._now, self.most = catalog.load_table, threading.Lock(), 0, 0

    def load_table(self, identifier: tuple[str, ...]) -> object:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            return self._load(identifier)
        finally:
            with self._lock:
                self._now -= 1


def test_an_interrupted_walk_goes_on_where_it_stopped(zoo: Zoo, tmp_path: Path) -> None:
    tables = [zoo.shared(kind) for kind in FEW]
    resume = ResumeFile.open(tmp_path / "resume", "id")
    with pytest.raises(KeyboardInterrupt):
        walk(zoo, concurrency=1).assess("lake", tables, progress=interrupt_after(2), resume=resume)

    found = walk(zoo).assess("lake", tables, resume=ResumeFile.open(tmp_path / "resume", "id"))

    assert len(found.rows) == len(FEW)
    assert found.read < len(FEW) - 1


def interrupt_after(done: int) -> Callable[[int, str], None]:
    def progress(assessed: int, _table: str) -> None:
        if assessed == done:
            raise KeyboardInterrupt

    return progress


def test_a_catalog_that_stops_answering_is_an_error_and_no_row(zoo: Zoo) -> None:
    def load() -> Catalog:
        raise CatalogUnreachable("lake", OSError("gone"))

    with pytest.raises(CatalogUnreachable):
        Walk(load, EAGER, clock).assess("lake", [zoo.shared("healthy")])


def test_the_resume_file_of_another_catalog_is_refused(tmp_path: Path) -> None:
    ResumeFile.open(tmp_path / "resume", "one")

    with pytest.raises(UnusableResumeFile, match="another catalog"):
        ResumeFile.open(tmp_path / "resume", "two")


@pytest.mark.parametrize(
    "name", ["history.expire.max-ref-age-ms", "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"]
)
def test_a_property_that_is_no_number_stops_the_assessment_of_no_other_table(zoo: Zoo, name: str) -> None:
    spoilt = zoo.new("branches_and_tags")
    with zoo.load(spoilt).transaction() as transaction:
        transaction.set_properties({name: "5 days"})

    found = walk(zoo).assess("lake", [spoilt, zoo.shared("healthy")])

    assert {row.table for row in found.rows} == {spoilt.dotted, "zoo.healthy"}


def test_a_table_that_cannot_be_planned_is_a_row_with_the_reason(zoo: Zoo) -> None:
    spoilt = zoo.new("branches_and_tags")
    with edited_metadata(zoo.load(spoilt)) as metadata:
        metadata["snapshots"][0]["timestamp-ms"] = -(10**17)

    found = walk(zoo).assess("lake", [spoilt, zoo.shared("healthy")])

    assert [row.table for row in found.of(State.UNREADABLE)] == [spoilt.dotted]
    assert str(found.of(State.UNREADABLE)[0].problem).startswith("It cannot be planned: ")
