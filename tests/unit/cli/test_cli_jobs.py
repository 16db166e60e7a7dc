"""``airflow snowpack jobs submit|list|show|cancel|delete|rerun``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml
from command_line import Run
from made_health import sick_health

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, Jobs, Jobs as MoreJobs, JobStatus
from airflow_snowpack.jobs.action_history import skipped_by_plan
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.maintenance.planning.table_plan import plan_table
from airflow_snowpack.maintenance.policies import Policies
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.job import JobShape
from airflow_snowpack.wire.shape import plain

CLICKS = TableName("lake", "demo", "clicks")


def test_a_submitted_job_waits_for_a_worker_is_noted_with_the_users_name_and_people_read_how_to_follow_it(
    snowpack: Run, jobs: Jobs, flights: TableName
) -> None:
    said = snowpack("jobs", "submit", "demo.flights", "--action", "expire_snapshots", "-o", "json")

    job = jobs.get(said.json["job_id"])
    assert (said.code, said.json) == (0, JobShape.encode(job))
    assert (job.status, job.actions, job.submitted_by) == (JobStatus.PENDING, ("expire_snapshots",), "ann")
    (entry,) = AuditTrail(jobs.store).of(job.job_id)
    assert (entry.actor, entry.via, entry.change) == ("ann", "cli", "submit")

    jobs.cancel(job.job_id)
    said = snowpack("jobs", "submit", "demo.flights")
    short = jobs.list()[0].job_id[:12]
    assert said.out.startswith(f"Job {short} is pending for demo.flights: rewrite_data_files, ")
    assert f"airflow snowpack jobs watch {short}" in said.out


def test_a_dry_run_tells_what_each_action_would_do(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    said = snowpack("jobs", "submit", "demo.flights", "--dry-run", "-a", "rewrite_data_files", "-a", "expire_snapshots")

    assert re.search(r"rewrite_data_files\s*\| Would compact 6 files into 1", said.out)
    assert re.search(r"expire_snapshots\s*\| Would expire none of 6 snapshots", said.out)
    assert [job.dry_run for job in jobs.list()] == [True]
    assert jobs.queue_depth() == 0


def test_a_job_carries_the_uuid_of_its_table_if_a_request_loads_the_table(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    uuid = str(hooks.IcebergCatalogHook().catalog.load_table(flights.identifier).metadata.table_uuid)

    def submitted(*command: str) -> Job:
        said = snowpack("jobs", *command, "-o", "json").json
        return jobs.cancel((said[0] if isinstance(said, list) else said)["job_id"])

    by_where = ("submit", "demo.flights", "-a", "rewrite_data_files", "--where", "month = 1")
    assert submitted("submit", "demo.flights").table_uuid == uuid, "the catalog has a table that the inventory does not have"
    assert submitted("submit", "demo.flights").table_uuid is None, "the first action of the job loads it"
    narrowed = submitted(*by_where)
    assert narrowed.table_uuid == submitted("rerun", narrowed.job_id).table_uuid == uuid


def test_options_and_a_predicate_reach_the_job(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    said = snowpack(
        "jobs", "submit", "demo.flights", "-o", "json",
        "-a", "rewrite_data_files", "-a", "expire_snapshots",
        "--options", '{"expire_snapshots": {"retain_last": 10}}', "--where", "month = 1",
        "--no-only-if-needed",
    )  # fmt: skip

    assert jobs.get(said.json["job_id"]).options == {
        "rewrite_data_files": {"where": "month = 1", "only_if_needed": False},
        "expire_snapshots": {"retain_last": 10, "only_if_needed": False},
    }


def test_a_job_has_the_priority_that_it_is_submitted_with(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    job_id = snowpack("jobs", "submit", "demo.flights", "--priority", "-7", "-o", "json").json["job_id"]

    assert snowpack("jobs", "show", job_id, "-o", "json").json["priority"] == -7
    shown = snowpack("jobs", "show", job_id).out
    assert "Waiting with priority -7 for a worker: next in the queue" in shown
    snowpack("jobs", "cancel", job_id, "--yes")
    again = snowpack("jobs", "rerun", job_id, "-o", "json").json[0]["job_id"]
    assert jobs.get(again).priority == -7
    refused = snowpack("jobs", "submit", "demo.flights", "--priority", "1001")
    assert (refused.code, refused.err.strip()) == (
        2, "Priority 1001 is not valid. It must be between -1000 and 1000; the highest runs first."
    )  # fmt: skip


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_the_same_key_again_is_the_same_job(snowpack: Run, jobs: Jobs, flights: TableName, dry: tuple[str, ...]) -> None:
    request = ("jobs", "submit", "demo.flights", "--idempotency-key", "k1", *dry)
    first, again = snowpack(*request, "-o", "json"), snowpack(*request)

    assert again.code == 0
    assert again.out.startswith("An earlier request with this key submitted this job.")
    assert [job.job_id for job in jobs.list()] == [first.json["job_id"]]


def test_the_same_key_with_another_request_and_a_request_that_cannot_be_met_are_refused_in_a_sentence(
    snowpack: Run, jobs: Jobs, flights: TableName
) -> None:
    for arguments, code, problem in [
        (("demo.nothing",), 4, "has no table 'demo.nothing'"),
        (("flights",), 2, "is not a table name"),
        (("a; DROP TABLE x",), 2, "is not a table name"),
        (("demo.flights", "-a", "vacuum"), 2, "invalid choice"),
        (("demo.flights", "--options", "{"), 2, "--options '{' is not valid JSON"),
        (("demo.flights", "--options", "[1]"), 2, "is not a JSON object"),
        (("demo.flights", "--options", '{"expire_snapshots": {"keep": 1}}'), 2, "'keep'"),
        (("demo.flights", "-a", "expire_snapshots", "--where", "x = 1"), 2, "narrows only"),
        (("demo.flights", "--where", "nope = 1"), 2, "the table has no column 'nope'; it has: month, delay"),
        (("demo.flights", "--where", "nope = 1", "--dry-run"), 2, "the table has no column 'nope'; it has: month, delay"),
        (("demo.flights", "--where", "month = 0); DROP TABLE x; --"), 2, "the character ';'"),
        (("demo.flights", "--idempotency-key", "ü"), 2, "idempotency key"),
        (("demo.flights", "--wait", "--timeout", "soon"), 2, "--timeout must be a duration"),
    ]:
        said = snowpack("jobs", "submit", *arguments)

        assert (said.code, problem in said.err) == (code, True), said.err
        assert (said.out if "choice" not in problem else "") == ""
        assert jobs.list() == []

    snowpack("jobs", "submit", "demo.flights", "--idempotency-key", "k1")
    said = snowpack("jobs", "submit", "demo.flights", "--idempotency-key", "k1", "--dry-run")

    assert said.code == 2
    assert "was already used for another request" in said.err


def test_a_locked_table_is_a_matter_of_trying_again(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    held = jobs.submit(flights, ["expire_snapshots"])
    said = snowpack("jobs", "submit", "demo.flights")

    assert said.code == 5
    assert f"locked by {held.job_id}" in said.err
    assert said.err.endswith(f"airflow snowpack jobs show {held.job_id[:12]}\n"), "what to do comes after what is wrong"


def test_drain_mode_is_a_matter_of_trying_again_whatever_else_is_wrong(snowpack: Run, jobs: Jobs) -> None:
    jobs.set_drain(True, by="ops", reason="moving the store")
    said = snowpack("jobs", "submit", "not a name")

    assert said.code == 5
    assert "moving the store" in said.err


def test_a_list_has_short_ids_and_relative_times_for_people_and_exact_values_for_programs(
    snowpack: Run, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"], submitted_by="vera")
    heading, _rule, line = snowpack("jobs", "list").out.splitlines()[:3]

    assert [cell.strip() for cell in heading.split("|")] == ["job", "table", "status", "actions", "submitted", "by"]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[:4] == [job.job_id[:12], "demo.flights", "pending", "expire_snapshots"]
    assert re.fullmatch(r"just now|\d+ s ago", cells[4])
    assert "\x1b" not in line
    line = snowpack("jobs", "list", "-o", "plain").out.splitlines()[1]
    assert line.split()[:5] == [job.job_id, "demo.flights", "pending", "expire_snapshots", plain(job.submitted_at)]

    snowpack("jobs", "submit", "demo.flights", "--dry-run")
    expected = [JobShape.encode(job) for job in jobs.list()]
    assert expected[0]["results"]

    assert snowpack("jobs", "list", "-o", "json").json == expected
    assert yaml.safe_load(snowpack("jobs", "list", "-o", "yaml").out) == expected


def test_a_job_that_a_pass_withdrew_is_called_so_for_people_and_cancelled_for_programs(
    snowpack: Run, jobs: Jobs, flights: TableName
) -> None:
    job_id = jobs.submit(flights, ["expire_snapshots"]).job_id
    jobs.store.transact(lambda conn: withdraw(conn, [job_id], "The time of the pass was over.", jobs.store.clock()))

    assert "| withdrawn |" in re.sub(" +", " ", snowpack("jobs", "list", "--status", "cancelled").out)
    assert "withdrawn: The time of the pass was over." in snowpack("jobs", "watch", job_id).out
    assert "withdrawn" in snowpack("jobs", "show", job_id).out
    assert [job["status"] for job in snowpack("jobs", "list", "-o", "json").json] == ["cancelled"]


@pytest.fixture
def several(jobs: Jobs, flights: TableName) -> Jobs:
    """A cancelled and a running job of one table, a pending one of another."""
    jobs.cancel(jobs.submit(flights, ["expire_snapshots"], submitted_by="bob").job_id)
    jobs.submit_and_claim(flights, ["rewrite_manifests"], "w1", owner="nightly/run/task")
    jobs.submit(replace(CLICKS, catalog_id=flights.catalog_id), ["expire_snapshots"])
    return jobs


def test_a_list_is_narrowed_by_every_filter_and_one_that_cannot_be_used_is_a_usage_problem(
    snowpack: Run, several: Jobs, jobs: Jobs
) -> None:
    for narrowed, found in [
        ((), ["pending", "running", "cancelled"]),
        (("--table", "demo.flights"), ["running", "cancelled"]),
        (("--status", "running", "--status", "pending"), ["pending", "running"]),
        (("--search", "BOB"), ["cancelled"]),
        (("--dag", "nightly"), ["running"]),
        (("--dry-run",), []),
        (("--no-dry-run",), ["pending", "running", "cancelled"]),
        (("--since", "1h"), ["pending", "running", "cancelled"]),
        (("--until", "1h"), []),
        (("--until", "2999-01-01"), ["pending", "running", "cancelled"]),
        (("--since", "2999-01-01T00:00+02:00"), []),
        (("--limit", "1"), ["pending"]),
    ]:
        assert [job["status"] for job in snowpack("jobs", "list", "-o", "json", *narrowed).json] == found

    for arguments, problem in [
        (("--cursor", "nowhere"), "is not one that a list returned"),
        (("--since", "yesterday"), "is neither a time nor a duration"),
        (("--table", "flights"), "is not a table name"),
        (("--limit", "0"), "invalid positive int"),
        (("--status", "done"), "invalid choice"),
    ]:
        said = snowpack("jobs", "list", *arguments)

        assert said.code == 2
        assert problem in said.err


def test_a_page_says_where_the_next_begins_and_a_search_that_stopped_early_how_to_go_on(
    snowpack: Run, several: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = snowpack("jobs", "list", "--limit", "2", "-o", "json")
    cursor = re.search(r"--cursor (\S+)", first.err)
    assert cursor is not None
    rest = snowpack("jobs", "list", "--limit", "2", "-o", "json", "--cursor", cursor[1])

    assert [job["job_id"] for job in first.json + rest.json] == [job.job_id for job in several.list()]
    assert rest.err == ""
    assert len(snowpack("jobs", "list", "--limit", "1", "--all", "-o", "json").json) == 3

    monkeypatch.setattr("airflow_snowpack.jobs.listing.MAX_EXAMINED", 1)
    oldest = several.list()[-1]
    first = snowpack("jobs", "list", "--search", oldest.job_id)

    assert first.out == "No jobs match the filter so far.\n"
    assert " back to " in first.err
    assert [job["job_id"] for job in snowpack("jobs", "list", "--search", oldest.job_id, "--all", "-o", "json").json] == [
        oldest.job_id
    ]


def test_a_job_is_shown_with_its_reason_results_and_history(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"], submitted_by="vera", options={"expire_snapshots": {"retain_last": 5}})
    jobs.flush()
    said = snowpack("jobs", "show", job.job_id[:8])

    assert job.job_id in said.out
    assert "Waiting for a worker: next in the queue, no worker busy." in said.out
    assert "retain_last" in said.out
    assert "submitted by vera" in said.out


def test_a_job_of_a_plan_is_shown_with_each_estimate_beside_its_outcome(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    request = plan_table(sick_health(), Policies().of(flights, {}), now=datetime.now(UTC)).request()
    job = jobs.submit(flights, request.actions, options=request.options, plan=request.plan)
    pending = snowpack("jobs", "show", job.job_id).out
    assert re.search(
        r"rewrite_data_files +\| run +\| 1,200 of 1,230 files below .+\| 1,200 files removed, .*1.2 GiB rewritten, ", pending
    )
    assert re.search(r"\| rewrite_data_files \(auto\) +\|", snowpack("jobs", "list").out)
    assert "actions    rewrite_data_files (auto)" in pending
    claim = jobs.claim("w1", catalog_id=flights.catalog_id)
    assert claim is not None
    metrics = {"rewritten_data_files_count": 11, "rewritten_bytes_count": 11 * 2**20}
    done = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted", 30.0, metrics=metrics, gb_hours=0.25)
    skipped = [each for action in job.actions[1:] if (each := skipped_by_plan(job, action))]
    assert jobs.record_progress(claim, [done])
    assert jobs.finish(claim, JobStatus.COMPLETED, [done, *skipped])
    assert [entry.detail["action"] for entry in jobs.history(job.job_id) if entry.event == "action"] == ["rewrite_data_files"]

    shown = snowpack("jobs", "show", job.job_id).out
    assert "| 11 files removed, 11.0 MiB rewritten, 30 s, 0.25 " in shown
    assert "Compacted" in shown
    assert "Skipped by the plan" not in shown, "the plan has the reason of each skip"


def test_a_job_as_json_has_the_jobs_own_fields_and_its_story(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    snowpack("jobs", "submit", "demo.flights", "--dry-run", "-a", "rewrite_data_files")
    (job,) = jobs.list()
    told = snowpack("jobs", "show", job.job_id, "-o", "json").json

    body = JobShape.encode(job)
    assert {name: told[name] for name in body if name != "results"} == {name: body[name] for name in body if name != "results"}
    assert told["results"][0]["metrics"]["rewritten_data_files_count"] == 6
    assert told["attempt"] == 0
    assert told["owner"] is None
    assert [entry["change"] for entry in told["audit"]] == ["dry_run"]
    assert [entry["event"] for entry in told["history"]] == ["dry_run"]


def test_the_control_characters_of_an_error_do_not_reach_the_terminal(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    claim = jobs.submit_and_claim(flights, ["expire_snapshots"], "w1")
    jobs.finish(claim, JobStatus.FAILED, [], error="\x1b[2Jgone [/red] [snowpack] is text")

    for command in (("jobs", "list"), ("jobs", "show", claim.job.job_id)):
        said = snowpack(*command)
        assert said.code == 0
        assert "\x1b" not in said.out
        assert "gone [/red] [snowpack] is text" in said.out


def test_the_beginning_of_two_ids_is_refused_a_short_one_a_usage_problem_and_an_id_of_no_job_not_found(
    snowpack: Run, jobs: Jobs
) -> None:
    ids = iter(["abcdefab" + "0" * 24, "abcdefab" + "1" * 24])
    twins = MoreJobs(jobs.store, make_id=lambda: next(ids))
    one, other = (twins.submit(table, ["expire_snapshots"]) for table in (CLICKS, TableName("lake", "demo", "views")))
    said = snowpack("jobs", "show", "abcdefab")

    assert said.code == 2
    assert one.job_id in said.err
    assert other.job_id in said.err
    assert snowpack("jobs", "show", "ABCDEFAB0").code == 0

    for given, code in [("deadbeef", 4), ("d" * 32, 4), ("no hex at all", 4), ("abc", 2), ("", 4)]:
        assert snowpack("jobs", "show", given).code == code


def test_one_bad_id_does_not_keep_the_others_from_being_cancelled_and_the_same_id_twice_is_one_change(
    snowpack: Run, several: Jobs
) -> None:
    pending, running, cancelled = several.list()
    ids = (pending.job_id, pending.job_id[:12], cancelled.job_id, running.job_id)
    said = snowpack("jobs", "cancel", "deadbeef", *ids, "--yes")

    assert [several.get(job.job_id).status for job in (pending, running)] == [JobStatus.CANCELLED] * 2
    assert said.out.count("cancelled") == 2
    assert "Job 'deadbeef' does not exist" in said.err
    assert "has already been cancelled" in said.err
    assert said.code == 1, "two problems of different kinds"
    assert snowpack("jobs", "cancel", "deadbeef", "--yes").code == 4
    assert AuditTrail(several.store).of(pending.job_id)[-1].actor == "ann"


def test_a_job_is_asked_for_once_more_and_so_is_a_dry_run(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    done = jobs.submit(flights, ["expire_snapshots"], options={"expire_snapshots": {"retain_last": 9}})
    jobs.cancel(done.job_id)
    again = snowpack("jobs", "rerun", done.job_id, "-o", "json").json[0]
    assert jobs.get(again["job_id"]).options == done.options
    assert again["status"] == "pending"

    plan = snowpack("jobs", "submit", "demo.flights", "--dry-run", "-o", "json").json
    replanned = snowpack("jobs", "rerun", plan["job_id"], "-o", "json").json[0]
    assert (replanned["dry_run"], replanned["status"]) == (True, "completed")
    assert [result["message"] for result in replanned["results"]] == [result["message"] for result in plan["results"]]


def test_deleted_jobs_are_gone_active_ones_refuse_and_nothing_is_destroyed_without_yes(snowpack: Run, several: Jobs) -> None:
    for command in ["cancel", "delete"]:
        said = snowpack("jobs", command, several.list()[0].job_id)

        assert said.code == 2
        assert "Pass --yes to skip this prompt." in said.err
        assert several.list()[0].status is JobStatus.PENDING

    pending, _running, cancelled = several.list()
    said = snowpack("jobs", "delete", cancelled.job_id, pending.job_id, "--yes", "-o", "json")

    assert (said.code, [job["job_id"] for job in said.json]) == (1, [cancelled.job_id])
    assert "cannot be deleted. Cancel it first" in said.err
    assert len(several.list()) == 2

    clicks = several.list()[0]
    several.cancel(clicks.job_id)

    assert snowpack("jobs", "rerun", clicks.job_id).code == 4


@pytest.mark.parametrize(("typed", "code", "status"), [("y\n", 0, "cancelled"), ("n\n", 1, "pending"), ("\n", 1, "pending")])
def test_on_a_terminal_the_question_is_asked(
    snowpack: Run, several: Jobs, terminal: Callable[[str], None], typed: str, code: int, status: str
) -> None:
    terminal(typed)
    job = several.list()[0]
    said = snowpack("jobs", "cancel", job.job_id)

    assert f"Cancel job {job.job_id[:12]} (demo.clicks, pending)? This cannot be undone. (y/n)" in said.err
    assert (said.code, several.get(job.job_id).status) == (code, status)
