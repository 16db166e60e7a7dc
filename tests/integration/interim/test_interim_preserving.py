"""What is preserved, or has a global name, outlives its run until its time is over or somebody lets go of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from interim_lake import InterimLake, ReportedRuns, table_named

from airflow_snowpack.preservation import Preservation

DAY = timedelta(days=1)


def test_preservation_ends_with_its_time_to_live(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.handed_on("clean", preservation=Preservation.FULL, ttl=7 * DAY)
    reported.end()
    assert lake_of_tables.collect(reported, later=6 * DAY).dropped == ()

    assert len(lake_of_tables.collect(reported, later=DAY).dropped) == 1


@pytest.mark.one_database
def test_a_preserved_table_that_is_needed_stays_when_its_time_is_over(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"], preservation=Preservation.FULL, ttl=DAY)

    assert lake_of_tables.collect(reported, later=3 * DAY).dropped == ()


def test_a_global_name_ends_with_its_time_to_live(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.named("features", ttl=7 * DAY)
    reported.end()
    assert lake_of_tables.collect(reported, later=6 * DAY).dropped == ()

    assert len(lake_of_tables.collect(reported, later=DAY).dropped) == 1
    assert table_named(lake_of_tables.registry, "features") is None
