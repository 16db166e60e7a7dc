"""``airflow snowpack removals``: list, show, approve, reject and run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import Run
from planned_removals import STRANGE, plan_removal, quarantine_removal

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.removals.model import Removal
from airflow_snowpack.store import AuditTrail

pytestmark = pytest.mark.one_database


@pytest.fixture
def planned(jobs: Jobs, flights: TableName) -> Removal:
    return plan_removal(jobs.store, flights)


def test_removals_are_a_table_for_people_and_data_for_programs(snowpack: Run, planned: Removal) -> None:
    listed = snowpack("removals", "list").out
    assert all(text in listed for text in (planned.removal_id[:12], "demo.flights", "awaiting_approval", "3.0 KiB"))
    (body,) = snowpack("removals", "list", "--table", "demo.flights", "-o", "json").json["removals"]
    assert (body["removal_id"], body["bytes"]) == (planned.removal_id, 3072)
    assert snowpack("removals", "list", "--state", "failed").out == "No removals match the filter.\n"
    shown = snowpack("removals", "show", planned.removal_id[:8]).out
    assert "clean/manual__1/plan" in shown
    first = snowpack("removals", "show", planned.removal_id, "--items", "--limit", "2", "-o", "json").json
    assert (first["items"][0]["name"], first["next"]) == (STRANGE, 2)
    rest = snowpack("removals", "show", planned.removal_id, "--items", "--cursor", "2", "-o", "json").json
    assert len(rest["items"]) == 1
    assert snowpack("removals", "show", "0" * 32).code == 4


def test_a_removal_is_approved_and_run_after_confirmations(snowpack: Run, planned: Removal, jobs: Jobs) -> None:
    key = planned.removal_id[:12]
    assert snowpack("removals", "run", key, "--yes").code == 1
    unasked = snowpack("removals", "approve", key)
    assert (unasked.code, "Approve the removal of 3 orphan files of 3.0 KiB of demo.flights?" in unasked.err) == (2, True)
    approved = snowpack("removals", "approve", key, "--comment", "fine", "--yes").out
    assert "The removal of 3 orphan files of 3.0 KiB of demo.flights is approved." in approved
    job = snowpack("removals", "run", key, "--yes", "-o", "json").json
    assert jobs.get(job["job_id"]).options == {"remove_orphan_files": {"removal_id": planned.removal_id}}
    (entry,) = AuditTrail(jobs.store).of(f"removal:{planned.removal_id}")
    assert (entry.actor, entry.via, entry.detail["comment"]) == ("ann", "cli", "fine")


def test_the_commands_of_the_page_end_well(snowpack: Run, planned: Removal, jobs: Jobs, flights: TableName) -> None:
    page = (Path(__file__).parents[3] / "docs" / "removals.md").read_text()
    restore, decide = (block.splitlines() for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    assert (len(restore), len(decide)) == (4, 6)

    def run(line: str, removal: Removal) -> None:
        program, group, *arguments = shlex.split(line.replace("4f1c2b9a6d0e", removal.removal_id[:12]))
        assert (program, group) == ("airflow", "snowpack")
        answer = snowpack(*arguments)
        assert answer.code == 0, f"{line}\n{answer.err}"

    for line in decide:
        run(line, planned)
    assert [entry.change for entry in AuditTrail(jobs.store).latest()] == ["reject_removal", "submit", "approve_removal"]
    removal = None
    for line in restore:
        for lock in jobs.locks.list():
            jobs.cancel(lock.holder)
        removal = removal or quarantine_removal(jobs.store, flights)
        run(line, removal)


def test_a_removal_is_rejected_for_good(snowpack: Run, planned: Removal) -> None:
    assert snowpack("removals", "reject", planned.removal_id, "--yes", "-o", "json").json["state"] == "rejected"
    refused = snowpack("removals", "approve", planned.removal_id, "--yes")
    assert (refused.code, "it was rejected by ann" in refused.err) == (1, True)


def test_files_in_quarantine_are_listed_and_restored(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    assert snowpack("removals", "restore", "--table", "demo.flights", "--yes").code == 1
    removal = quarantine_removal(jobs.store, flights)
    key = removal.removal_id[:12]
    listed = snowpack("removals", "list", "--state", "quarantined").out
    assert key in listed
    assert re.search(r"deleted for good +in [67] d", snowpack("removals", "show", key).out)
    unasked = snowpack("removals", "restore", key)
    assert (unasked.code, "Restore all files in quarantine of demo.flights" in unasked.err) == (2, True)

    def options(*arguments: str) -> object:
        job = snowpack("removals", "restore", *arguments, "--yes", "-o", "json").json
        found = jobs.get(job["job_id"]).options["remove_orphan_files"]
        jobs.cancel(job["job_id"])
        return found

    assert options(key) == {"restore": removal.removal_id}
    assert options(key, "--file", STRANGE, "--file", "b") == {"restore": removal.removal_id, "restore_files": [STRANGE, "b"]}
    assert options("--table", "demo.flights") == {"restore": "all"}
    assert snowpack("removals", "restore", "--yes").code == 2
    assert snowpack("removals", "restore", key, "--table", "demo.flights", "--yes").code == 2
