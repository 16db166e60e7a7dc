"""The audit trail: pages of who did what, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Actor, AuditTrail, Desk, Jobs

if TYPE_CHECKING:
    from conftest import MovedClock


def test_pages_go_back_in_time_and_repeat_nothing_while_more_happens(jobs: Jobs, clock: MovedClock) -> None:
    trail, desk = AuditTrail(jobs.store), Desk(jobs, Actor("vera", via="cli"))
    for number in range(7):
        desk.submit(TableName("lake", "db", f"t{number}"), ["expire_snapshots"])
        clock.forward(seconds=1)
    everything = trail.latest()
    seen = trail.latest(limit=3)
    while page := trail.latest(limit=3, before=seen[-1].id):
        seen += page
        desk.set_drain(not jobs.drain().on)

    assert seen == everything
    assert [entry.at for entry in seen] == sorted((entry.at for entry in seen), reverse=True)
    assert {entry.via for entry in seen} == {"cli"}


def test_a_page_can_be_of_one_subject(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    trail, desk = AuditTrail(jobs.store), Desk(jobs, Actor("vera", via="page"))
    job = desk.submit(table, ["expire_snapshots"]).job
    for on in (True, False, True, False):
        desk.set_drain(on, reason="upgrade")
        clock.forward(seconds=1)
    desk.cancel(job.job_id)

    assert [entry.change for entry in trail.latest(subject=job.job_id)] == ["cancel", "submit"]
    assert [entry.change for entry in trail.latest(limit=3, subject="drain")] == ["drain_off", "drain_on", "drain_off"]
    assert [entry.change for entry in trail.of("drain")] == ["drain_on", "drain_off"] * 2
    assert trail.latest(subject="nothing \x00 \ud800") == []


def test_any_number_is_a_place_in_the_trail(jobs: Jobs, table: TableName) -> None:
    Desk(jobs, Actor("vera", via="page")).submit(table, ["expire_snapshots"])
    trail = AuditTrail(jobs.store)

    assert len(trail.latest(before=2**200)) == 1
    assert trail.latest(before=-(2**200)) == []
    assert trail.latest(before=0) == []
