"""What a plan decides from stored health and a policy."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from health_world import MIB, NOW, TABLE, health, partition, policy

from airflow_snowpack.daily_window import DailyWindow
from airflow_snowpack.humanize import timestamp
from airflow_snowpack.iceberg.health import Ref, SpecField
from airflow_snowpack.jobs.action_history import ActionHistory, ActionRecord
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.planning import Cause, Decision, TablePlan, plan_table
from airflow_snowpack.maintenance.writers import TableWriters, WritingDag

DATA, DELETES, MANIFESTS = "rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests"
SNAPSHOTS, ORPHANS = "expire_snapshots", "remove_orphan_files"
GIB = 1024**3
ROOT = Path(__file__).parents[4]
SICK = [partition(day, small_files=60) for day in (20_000, 20_001)]
HEALTHY = [partition(day, data_files=3, bytes=3 * 512 * MIB) for day in range(20_002, 20_010)]


def replace_thresholds(rules: Any, action: str, **thresholds: int) -> Any:
    own = replace(rules.actions[action], thresholds=thresholds)
    return replace(rules, actions={**rules.actions, action: own})


def decide(action: str, of: Any, rules: Any = None, record: ActionRecord | None = None, **more: Any) -> Decision:
    history = ActionHistory({action: record} if record else {})
    return plan_table(of, rules or policy(), now=NOW, history=history, **more).of(action)


def test_files_are_rewritten_from_the_threshold_on_in_the_sick_partitions_alone() -> None:
    decision = decide(DATA, health([*SICK, *HEALTHY]))

    assert (decision.verdict, decision.cause) == ("run", "needed")
    assert decision.evidence == "120 of 144 files below 384.0 MiB in 2 of 10 partitions; threshold 100"
    assert decision.options["where"] == "`lake`.system.days(`ts`) IN (DATE '2024-10-04', DATE '2024-10-05')"
    assert decision.estimate is not None
    assert (decision.estimate.files_removed, decision.estimate.files_added) == (120, 2)
    assert decision.estimate.bytes_rewritten == 120 * MIB
    assert decision.estimate.gb_hours > 0


def test_a_table_below_the_threshold_is_skipped_with_its_numbers() -> None:
    decision = decide(DATA, health([SICK[0], *HEALTHY]))

    assert (decision.verdict, decision.cause, decision.estimate) == ("skip", "healthy", None)
    assert decision.evidence == "60 of 84 files below 384.0 MiB in 1 of 9 partitions; threshold 100"


def test_small_files_that_no_rewrite_can_combine_count_for_nothing() -> None:
    decision = decide(DATA, health([partition(day, small_files=1) for day in range(20_000, 20_150)]))

    assert decision.cause == Cause.HEALTHY
    assert decision.evidence == "150 of 150 files too small, and no partition has enough of them"


def test_a_partition_that_is_being_written_to_is_left_alone() -> None:
    hot = partition(20_777, small_files=200, newest=timedelta(minutes=10))

    decision = decide(DATA, health([hot, *SICK, *HEALTHY]))

    assert "2026-11-20" not in decision.options["where"]
    assert decision.estimate is not None
    assert decision.estimate.files_removed == 120
    assert decision.evidence.endswith("threshold 100; writers add files to 1 partition now")


def test_a_table_whose_only_sick_partition_is_written_to_is_reconsidered_when_the_writer_has_been_still_for_an_hour() -> None:
    hot = partition(20_777, small_files=200, newest=timedelta(minutes=10))

    decision = decide(DATA, health([hot, *HEALTHY]))

    assert (decision.verdict, decision.cause) == ("skip", "writing")
    assert decision.reconsider_at == NOW + timedelta(minutes=50)


def test_a_table_whose_other_partitions_are_below_the_threshold_is_reconsidered_too() -> None:
    hot = partition(20_777, small_files=200, newest=timedelta(minutes=10))

    decision = decide(DATA, health([hot, SICK[0], *HEALTHY]))

    assert (decision.verdict, decision.cause) == ("skip", "writing")
    assert decision.evidence == (
        "260 of 284 files below 384.0 MiB in 2 of 10 partitions; threshold 100; writers add files to 1 partition now"
    )
    assert decision.reconsider_at == NOW + timedelta(minutes=50)


def test_a_partition_below_the_threshold_that_is_written_to_does_not_make_the_table_wait() -> None:
    hot = partition(20_777, small_files=20, newest=timedelta(minutes=10))

    decision = decide(DATA, health([hot, SICK[0], *HEALTHY]))

    assert decision.cause == Cause.HEALTHY


def test_partitions_that_are_all_written_to_are_rewritten_because_no_later_moment_is_better() -> None:
    buckets = [partition(bucket, small_files=50, newest=timedelta(minutes=5)) for bucket in range(4)]

    decision = decide(DATA, health(buckets))

    assert decision.verdict == "run"
    assert decision.estimate is not None
    assert decision.estimate.files_removed == 200


def test_past_its_deadline_a_partition_is_rewritten_although_it_is_written_to() -> None:
    hot = partition(20_777, small_files=20, newest=timedelta(minutes=10))
    overdue = policy({DATA: {"deadline": timedelta(days=7)}})

    decision = decide(DATA, health([hot, *HEALTHY]), overdue, ActionRecord(last_success_at=NOW - timedelta(days=8)))

    assert (decision.verdict, decision.cause) == ("run", "deadline")
    assert decision.evidence.endswith("overdue: the deadline is 7 d")


def test_one_plan_rewrites_at_most_its_limit_and_the_partitions_that_gain_most_first() -> None:
    small = [partition(day, small_files=100, small_bytes=GIB) for day in range(20_000, 20_008)]
    worst = partition(20_100, small_files=900, small_bytes=4 * GIB)

    decision = decide(DATA, health([*small, worst, *HEALTHY]), policy(max_rewrite_bytes=6 * GIB))

    assert decision.estimate is not None
    assert decision.estimate.bytes_rewritten == 6 * GIB
    assert decision.estimate.files_removed == 900 + 2 * 100
    assert "2025-01-12" in decision.options["where"]
    assert decision.evidence.endswith("one plan rewrites at most 6.0 GiB")


def test_a_partition_that_is_larger_than_a_plan_is_rewritten_part_by_part() -> None:
    giant = partition(20_100, small_files=1000, small_bytes=40 * GIB)

    decision = decide(DATA, health([giant, *HEALTHY]))

    assert decision.estimate is not None
    assert decision.options["max_files_to_rewrite"] == decision.estimate.files_removed == 250
    assert decision.estimate.bytes_rewritten == 10 * GIB
    assert "where" in decision.options


def test_smaller_partitions_do_not_hold_up_a_giant_for_ever() -> None:
    giant = partition(20_100, small_files=100, small_bytes=30 * GIB)
    others = [partition(day, small_files=200, small_bytes=GIB) for day in range(20_000, 20_020)]
    begun_with = [
        "2025-01-12" in decide(DATA, health([giant, *others]), record=ActionRecord(runs=runs)).options["where"]
        for runs in range(4)
    ]

    assert begun_with == [False, False, False, True]


def test_a_giant_whose_rewrite_fails_does_not_hold_up_smaller_partitions_for_ever() -> None:
    giant = partition(20_100, small_files=100, small_bytes=30 * GIB)
    others = [partition(day, small_files=200, small_bytes=GIB) for day in range(20_000, 20_020)]
    begun_with = [
        "2025-01-12" in decide(DATA, health([giant, *others]), record=ActionRecord(runs=3, failures=failures)).options["where"]
        for failures in range(3)
    ]

    assert begun_with == [True, False, False]


def test_sick_files_of_an_older_spec_select_the_whole_table() -> None:
    old = partition(650, spec_id=1, small_files=300)

    decision = decide(DATA, health([old, *HEALTHY]))

    assert decision.verdict == "run"
    assert "where" not in decision.options
    assert decision.estimate is not None
    assert decision.estimate.files_removed == 300
    assert "files of older partition specs cannot be selected alone, so the whole table is" in decision.evidence


def test_two_hundred_partitions_of_several_fields_are_selected_by_options_that_a_job_takes() -> None:
    fields = [SpecField("event_date", "date", "identity", "event_date"), SpecField("region", "string", "identity", "region")]
    sick = [replace(partition(20_000, small_files=9), values=(20_000 + day, f"region-{day % 7}")) for day in range(200)]

    options = decide(DATA, health([*sick, *HEALTHY], spec=fields)).options

    assert parse_options(DATA, options).to_json()["where"].count(" AND ") == 200


def test_a_predicate_that_no_job_would_take_gives_way_to_the_whole_table() -> None:
    fields = [SpecField("note", "string", "identity", "note")]
    sick = [replace(partition(20_000, small_files=9), values=(f"{day:03}" * 100,)) for day in range(200)]

    decision = decide(DATA, health([*sick, *HEALTHY], spec=fields))

    assert "where" not in parse_options(DATA, decision.options).to_json()
    assert decision.evidence.endswith("of the partitions would have 60,810 characters, so the whole table is selected")


def test_a_policy_that_rewrites_all_files_runs_by_its_deadline_although_each_file_is_good() -> None:
    all_of_it = {"options": {"rewrite_all": True}, "deadline": timedelta(days=7)}
    rules, last = policy({DATA: all_of_it}, max_rewrite_bytes=20 * GIB), timedelta(days=6)

    early = decide(DATA, health(HEALTHY), rules, ActionRecord(last_success_at=NOW - last))
    late = decide(DATA, health(HEALTHY), rules, ActionRecord(last_success_at=NOW - last * 2))

    assert early.evidence == (
        "0 of 24 files too small, too large or with many deletes; rewrite_all takes all of them in 8 of 8 partitions; "
        "thresholds 100, 10 and 10"
    )
    assert (early.cause, late.cause) == (Cause.HEALTHY, Cause.DEADLINE)
    assert late.estimate is not None
    assert late.estimate.files_removed == 24


def test_a_good_file_with_many_deletes_makes_its_partition_sick() -> None:
    deleted = partition(20_000, data_files=12, with_deletes_files=12, with_deletes_bytes=6 * GIB)

    decision = decide(DATA, health([deleted, *HEALTHY]))

    assert decision.verdict == "run"
    assert decision.evidence.startswith("12 of 36 files with many deletes in 1 of 9 partitions")


def test_the_where_of_the_policy_stays() -> None:
    rules = policy({DATA: {"options": {"where": "region = 'EU'"}}})

    where = decide(DATA, health([*SICK, *HEALTHY]), rules).options["where"]

    assert where.startswith("(region = 'EU') AND (`lake`.system.days(")


def test_position_deletes_of_data_files_that_the_same_plan_rewrites_are_rewritten_too() -> None:
    """Iceberg leaves them in the table when it rewrites the data files, unless every data file is newer then."""
    kept = partition(20_002, data_files=2, bytes=GIB, position_delete_files=12, delete_bytes=12 * MIB)
    rewritten = partition(
        20_000, small_files=120, position_delete_files=50, delete_bytes=50 * MIB, data_files=125, own_deletes_files=50
    )

    decision = decide(DELETES, health([kept, rewritten]))

    assert decision.evidence == "62 position-delete files in 2 of 2 partitions; threshold 10"
    assert decision.estimate is not None
    assert (decision.estimate.files_removed, decision.estimate.files_added) == (62, 1 + 5)
    gone = decide(DELETES, health([kept, replace(rewritten, data_files=120)])).estimate
    assert gone is not None
    assert gone.files_added == 1


@pytest.mark.parametrize(("last", "verdict"), [("append", "skip"), ("replace", "skip"), ("delete", "run"), ("overwrite", "run")])
def test_a_rewrite_of_all_data_files_drops_the_deletes_of_earlier_commits(last: str, verdict: str) -> None:
    table = health(
        [replace(each, position_delete_files=9, delete_bytes=MIB) for each in SICK], ages=[timedelta(days=2), timedelta(days=1)]
    )
    log = replace(table.snapshots, operations=("append", last))

    decision = decide(DELETES, replace(table, snapshots=log))

    assert decision.verdict == verdict
    if verdict == "skip":
        assert decision.evidence == "18 position-delete files, which the rewrite of all data files drops"


def test_manifests_are_rewritten_from_so_many_small_ones_on() -> None:
    table = health(HEALTHY, data_manifests=40, small_manifests=38, manifests_bytes=9 * MIB)

    decision = decide(MANIFESTS, table)

    assert decision.evidence == "38 of 40 manifests small; threshold 10"
    assert decision.estimate is not None
    assert (decision.estimate.files_removed, decision.estimate.files_added) == (40, 2)


@pytest.mark.parametrize(
    ("manifests", "properties", "left"),
    [
        (60, {}, 61),
        (99, {}, None),
        (5_000, {}, None),
        (40, {"commit.manifest.min-count-to-merge": "20"}, None),
        (60, {"commit.manifest.min-count-to-merge": "20", "commit.manifest-merge.enabled": "false"}, 61),
    ],
)
def test_manifests_that_the_rewrite_of_data_files_merges_are_not_rewritten_again(
    manifests: int, properties: dict[str, str], left: int | None
) -> None:
    stays = partition(20_003, data_files=40, bytes=40 * 512 * MIB, data_manifests=20)
    counts = {"data_manifests": manifests, "small_manifests": manifests, "manifests_bytes": MIB}
    table = health([*SICK, stays], **counts, properties=properties)
    rules = policy({DATA: {"options": {"partial_progress": False}}})

    decision = decide(MANIFESTS, table, rules)

    assert (decision.estimate and decision.estimate.files_removed) == left
    assert decision.evidence.endswith("replaces them") == (left is None)


def test_manifests_that_the_rewrite_of_data_files_leaves_without_files_are_not_rewritten() -> None:
    """Spark skips them and the next commit drops them."""
    table = health(SICK, data_manifests=60, small_manifests=60, manifests_bytes=MIB)

    decision = decide(MANIFESTS, table, policy({DATA: {"options": {"partial_progress": False}}}))

    assert decision.evidence == "60 manifests, 60 of them small; the rewrite of files replaces them"


def test_an_overdue_rewrite_of_manifests_names_those_that_the_rewrite_of_files_leaves() -> None:
    """The evidence would otherwise read as if the threshold was reached and only the deadline counted."""
    table = health(SICK, data_manifests=90, delete_manifests=8, small_manifests=98, manifests_bytes=MIB)
    merging = replace(table, properties={"commit.manifest.min-count-to-merge": "20"})

    decision = decide(
        MANIFESTS, merging, policy({DATA: {"options": {"partial_progress": False}}, MANIFESTS: {"deadline": timedelta(days=7)}})
    )

    manifests = "98 of 98 manifests small, 9 after the rewrite of files; threshold 10"
    assert decision.evidence == f"{manifests}; overdue: the deadline is 7 d"


@pytest.mark.parametrize(
    ("outdated", "evidence"),
    [
        (35, "38 of 40 manifests small, 5 of the current partition spec; threshold 10"),
        (39, "40 manifests, 38 of them small; those of older partition specs stay"),
    ],
)
def test_manifests_of_older_partition_specs_are_not_said_to_be_merged(outdated: int, evidence: str) -> None:
    """`rewrite_manifests` leaves them, and no rewrite of files is in the plan."""
    table = health(HEALTHY, data_manifests=40, outdated_data_manifests=outdated, small_manifests=38, manifests_bytes=9 * MIB)

    assert decide(MANIFESTS, table).evidence == evidence


def test_manifests_of_deletes_stay_when_a_rewrite_of_all_data_files_drops_the_deletes() -> None:
    """The last commit of the rewrite drops them, and leaves their manifests empty."""
    table = health(SICK, data_manifests=40, delete_manifests=30, small_manifests=70, manifests_bytes=MIB)

    decision = decide(MANIFESTS, table, policy({DATA: {"options": {"partial_progress": False}}}))

    assert decision.estimate is not None
    assert decision.estimate.files_removed == 41 + 30


def test_position_deletes_of_which_each_data_file_has_one_are_not_rewritten_again() -> None:
    """A rewrite writes one for each data file, so it would change nothing, pass after pass."""
    own = partition(20_000, data_files=20, bytes=20 * GIB, position_delete_files=12, delete_bytes=MIB, own_deletes_files=12)
    shared = replace(own, own_deletes_files=0)

    assert decide(DELETES, health([own])).evidence == "12 position-delete files, each of another data file"
    for text in ("partition", "PARTITION"):
        assert decide(DELETES, health([own], properties={"write.delete.granularity": text})).verdict == "run"
    assert decide(DELETES, health([shared])).verdict == "run"
    assert decide(DELETES, health([own], format_version=3)).verdict == "run", "they become deletion vectors"


def test_position_deletes_of_the_size_that_the_owner_wants_are_left_alone() -> None:
    by_owner = {"write.delete.target-file-size-bytes": str(MIB), "write.delete.granularity": "partition"}
    good = partition(20_000, data_files=20, bytes=20 * GIB, position_delete_files=12, delete_bytes=12 * MIB)

    assert decide(DELETES, health([good])).estimate.files_added == 1
    assert decide(DELETES, health([good], properties=by_owner)).evidence == (
        "12 position-delete files, and a rewrite would leave as many"
    )
    fewer = policy({DELETES: {"options": {"target_file_size_bytes": 4 * MIB}}})
    assert decide(DELETES, health([good], properties=by_owner), fewer).estimate.files_added == 3


def test_manifests_after_a_rewrite_in_several_commits_are_new_ones_and_those_of_files_that_stay_or_went_last() -> None:
    """Three partitions with a manifest for each file: the commits of the first two leave nothing of theirs."""
    sick = [partition(day, small_files=60, data_manifests=60) for day in (20_000, 20_001, 20_002)]
    stays = partition(20_003, data_files=20, bytes=20 * 512 * MIB, data_manifests=12)
    empty = {"empty_data_manifests": 7, "properties": {"commit.manifest-merge.enabled": "false"}}
    table = health([*sick, stays], data_manifests=199, small_manifests=192, manifests_bytes=MIB, **empty)

    decision = decide(MANIFESTS, table)

    assert decision.estimate is not None
    assert decision.estimate.files_removed == 3 + 12 + 60 - 4, "four are taken to have files of both, as they may be anywhere"
    assert decision.evidence == "192 of 199 manifests small, 15 after the rewrite of files; threshold 10"


def test_an_expiry_deletes_what_the_commits_after_the_expired_snapshots_dropped() -> None:
    table = health(HEALTHY, ages=[timedelta(days=days) for days in (9, 8, 7, 3, 2, 1)])
    log = replace(table.snapshots, added=(50, 10, 10, 10, 10, 10), dropped=(99, 1, 20, 4, 7, 7))

    decision = decide(SNAPSHOTS, replace(table, snapshots=log))

    assert decision.estimate is not None
    assert decision.estimate.snapshots_expired == 3
    assert decision.estimate.files_removed == 1 + 20 + 4 + 3, "with a manifest list each; what the first one dropped is gone"


def test_between_snapshots_that_stay_an_expiry_deletes_at_most_what_was_added_there() -> None:
    table = health(HEALTHY, ages=[timedelta(days=days) for days in (9, 8, 7, 3, 2, 1)], refs=[Ref("audit", "tag", 1)])
    log = replace(table.snapshots, added=(50, 3, 2, 10, 10, 10), dropped=(0, 0, 0, 40, 0, 0))

    decision = decide(SNAPSHOTS, replace(table, snapshots=log))

    assert decision.estimate is not None
    assert (decision.estimate.snapshots_expired, decision.estimate.files_removed) == (2, 5 + 2)


def test_an_expiry_deletes_what_the_first_commit_of_the_same_plan_drops() -> None:
    """The commits of the plan stay, so the files that only the second one drops are still needed."""
    sick = [partition(day, small_files=60, data_manifests=6) for day in (20_000, 20_001)]
    table = health(sick, ages=[timedelta(days=9)], data_manifests=12, empty_data_manifests=2)
    options = {"options": {"retain_last": 1}}

    decision = decide(SNAPSHOTS, table, policy({SNAPSHOTS: options}))

    assert decision.estimate is not None
    assert decision.estimate.files_removed == 60 + 6 + 2 + 1
    assert decision.estimate.bytes_freed == 60 * MIB


def test_an_expiry_without_a_least_age_takes_the_commits_of_the_same_plan_but_the_last() -> None:
    sick = [partition(day, small_files=60, data_manifests=6) for day in (20_000, 20_001, 20_002)]
    table = health(sick, ages=[timedelta(days=9)], data_manifests=18)
    options = {"options": {"max_age": "0s", "retain_last": 1}}

    decision = decide(SNAPSHOTS, table, policy({SNAPSHOTS: options}))

    assert decision.estimate is not None
    assert decision.estimate.snapshots_expired == 3, "of now, and after two of the three commits"
    assert decision.estimate.bytes_freed == 180 * MIB
    assert decision.estimate.files_removed > 180


def test_snapshots_expire_that_no_branch_tag_or_count_keeps() -> None:
    ages = [timedelta(days=days) for days in range(20, 0, -1)]

    decision = decide(SNAPSHOTS, health(HEALTHY, ages=ages, refs=[Ref("audit", "tag", 2)]))

    assert decision.estimate is not None
    assert decision.estimate.snapshots_expired == 14
    assert decision.evidence == "14 of 20 snapshots older than 5 d; threshold 1"


def test_a_young_snapshot_says_when_it_will_expire() -> None:
    ages = [timedelta(days=days) for days in (4, 3, 2, 1)]

    decision = decide(SNAPSHOTS, health(HEALTHY, ages=ages))

    assert (decision.verdict, decision.reconsider_at) == ("skip", NOW + timedelta(days=1))


def test_snapshots_below_the_threshold_are_reconsidered_when_enough_of_them_are_old() -> None:
    ages = [timedelta(days=days) for days in (7, 6, 4, 3, 2, 1)]
    rules = replace_thresholds(policy(), SNAPSHOTS, old_snapshots=4)

    decision = decide(SNAPSHOTS, health(HEALTHY, ages=ages), rules)

    assert (decision.verdict, decision.cause) == ("skip", "healthy")
    assert decision.evidence == "2 of 6 snapshots older than 5 d; threshold 4"
    assert decision.reconsider_at == NOW + timedelta(days=2)


def test_a_snapshot_that_a_tag_keeps_does_not_make_the_table_reconsidered_at_every_pass() -> None:
    ages = [timedelta(days=days) for days in (9, 3, 2, 1)]

    decision = decide(SNAPSHOTS, health(HEALTHY, ages=ages, refs=[Ref("audit", "tag", 1)]))

    assert (decision.verdict, decision.reconsider_at) == ("skip", NOW + timedelta(days=2))


@pytest.mark.parametrize(
    ("ref", "properties"),
    [
        (Ref("audit", "branch", 1, max_snapshot_age_ms=3_600_000), {}),
        (Ref("audit", "branch", 1, max_ref_age_ms=3_600_000), {}),
        (Ref("audit", "branch", 1), {"history.expire.max-ref-age-ms": "3600000"}),
    ],
)
def test_a_table_whose_branch_has_an_age_of_its_own_is_reconsidered_each_day(ref: Ref, properties: dict[str, str]) -> None:
    table = health(HEALTHY, ages=[timedelta(minutes=5), timedelta(minutes=1)], refs=[ref], properties=properties)

    assert decide(SNAPSHOTS, table).reconsider_at == NOW + timedelta(days=1)


def test_a_table_that_forbids_to_delete_files_keeps_its_snapshots() -> None:
    ages = [timedelta(days=days) for days in range(20, 0, -1)]

    decision = decide(SNAPSHOTS, health(HEALTHY, ages=ages, properties={"gc.enabled": "false"}))

    assert decision.cause == Cause.PROTECTED


def test_properties_that_are_not_numbers_keep_no_table_from_being_planned() -> None:
    junk = {"commit.manifest.target-size-bytes": "8 MiB", "history.expire.max-ref-age-ms": "a week"}
    ages = [timedelta(days=days) for days in range(20, 0, -1)]
    table = health(HEALTHY, ages=ages, data_manifests=40, small_manifests=38, manifests_bytes=9 * MIB, properties=junk)

    plan = plan_table(table, policy(), now=NOW)

    assert plan.actions == ()
    for action, name in zip((MANIFESTS, SNAPSHOTS), junk, strict=True):
        assert plan.of(action).cause == Cause.PROTECTED
        assert f"the table property {name} = " in plan.of(action).evidence


def test_orphan_files_are_searched_for_by_the_deadline() -> None:
    weekly, table = policy({ORPHANS: {"enabled": True, "deadline": timedelta(days=7)}}), health(HEALTHY)
    recent = ActionRecord(last_run_at=NOW - timedelta(days=2), last_success_at=NOW - timedelta(days=2))
    old = ActionRecord(last_run_at=NOW - timedelta(days=8), last_success_at=NOW - timedelta(days=8))

    skipped, due = decide(ORPHANS, table, weekly, recent), decide(ORPHANS, table, weekly, old)

    assert (skipped.verdict, skipped.reconsider_at) == ("skip", NOW + timedelta(days=5))
    assert (due.verdict, due.cause) == ("run", "deadline")
    assert due.evidence == "last searched for orphan files at 2026-11-15 03:00:00 UTC; overdue: the deadline is 7 d"


@pytest.mark.parametrize(("failures", "days"), [(3, 1), (4, 2), (5, 4), (6, 7), (90, 7)])
def test_an_action_that_fails_time_after_time_is_tried_again_after_growing_intervals(failures: int, days: int) -> None:
    failed_at = NOW - timedelta(hours=4)
    decision = decide(DATA, health(SICK), record=ActionRecord(last_run_at=failed_at, failures=failures))
    again = failed_at + timedelta(days=days)

    assert (decision.verdict, decision.cause, decision.reconsider_at) == ("skip", "failing", again)
    assert decision.evidence.endswith(
        f"threshold 100; failed {failures} times in a row, last at 2026-11-22 23:00:00 UTC; retried at {timestamp(again)}"
    )
    long_ago = ActionRecord(last_run_at=NOW - timedelta(days=days), failures=failures)
    assert decide(DATA, health(SICK), record=long_ago).verdict == "run"
    assert decide(DATA, health(SICK), record=ActionRecord(last_run_at=failed_at, failures=2)).verdict == "run"
    assert decide(DATA, health(SICK), record=replace(long_ago, last_run_at=failed_at), requested=True).verdict == "run"


def test_the_page_shows_the_evidence_of_an_action_that_has_failed_in_a_row() -> None:
    (shown,) = re.findall(r"; (failed 4 times in a row, .*)\n", (ROOT / "docs/plans.md").read_text())
    record = ActionRecord(last_run_at=datetime(2026, 11, 22, 2, 41, 7, tzinfo=UTC), failures=4)

    assert decide(DATA, health(SICK), record=record).evidence.endswith(f"; {shown}")


def test_an_action_waits_for_its_cadence() -> None:
    daily = policy({DATA: {"cadence": timedelta(days=1)}})

    decision = decide(DATA, health(SICK), daily, ActionRecord(last_run_at=NOW - timedelta(hours=4)))

    assert (decision.cause, decision.reconsider_at) == ("not_due", NOW + timedelta(hours=20))
    assert decision.evidence.endswith("last run 4 h ago, cadence 1 d")


@pytest.mark.parametrize(
    ("rules", "cause", "reason"),
    [
        (policy(skip="a migration"), Cause.EXCLUDED, "excluded by the policy: a migration"),
        (policy(frozen_until=NOW + timedelta(days=1)), Cause.FROZEN, "frozen until 2026-11-24 03:00:00 UTC"),
        (policy({DATA: {"enabled": False}}), Cause.DISABLED, "disabled by default"),
        (policy(quiet=(DailyWindow(time(1), time(5)),)), Cause.QUIET, "quiet until 2026-11-23 05:00:00 UTC"),
    ],
)
def test_a_policy_can_forbid_a_needed_action(rules: Any, cause: Cause, reason: str) -> None:
    decision = decide(DATA, health(SICK), rules)

    assert decision.cause == cause
    assert decision.evidence.endswith(reason)


def written_by(*producers: WritingDag) -> Any:
    return lambda: TableWriters(producers)


def test_a_rewrite_waits_for_a_dag_that_writes_to_the_table_and_other_actions_do_not() -> None:
    ingest = WritingDag("ingest", running_since=NOW - timedelta(minutes=12), usual_duration=timedelta(minutes=20))

    plan = plan_table(
        health(SICK, ages=[timedelta(days=9)] * 6), policy(), now=NOW, writers=written_by(WritingDag("other"), ingest)
    )

    decision = plan.of(DATA)
    assert (decision.cause, decision.reconsider_at) == ("producer", NOW + timedelta(minutes=8))
    assert decision.evidence == (
        "120 of 120 files below 384.0 MiB in 2 of 2 partitions; threshold 100; "
        "DAG 'ingest', which writes to the table, has been running for 12 min and usually takes 20 min"
    )
    assert plan.actions == (SNAPSHOTS,)


def test_orphan_files_that_a_running_dag_may_still_commit_stay_whatever_the_deadline() -> None:
    rules, table = policy({ORPHANS: {"enabled": True, "deadline": timedelta(days=7)}}), health(HEALTHY)
    short = WritingDag("short", running_since=NOW - timedelta(days=1, hours=23))
    long = WritingDag("long", running_since=NOW - timedelta(days=4, minutes=5), usual_duration=timedelta(days=4))

    usual = decide(ORPHANS, table, rules, writers=written_by(short))
    spared = decide(ORPHANS, table, rules, writers=written_by(short, long))

    assert (usual.verdict, usual.options["older_than"]) == ("run", "P3D")
    assert (spared.verdict, spared.options["older_than"]) == ("run", "P5DT1H")
    assert spared.evidence == (
        "never searched for orphan files; DAG 'long', which writes to the table, has been running for 4 d and usually takes 4 d, "
        "so only files of at least 5 d 1 h are removed; overdue: the deadline is 7 d"
    )


def test_a_rewrite_that_would_not_end_before_a_writer_is_due_takes_what_fits() -> None:
    small = [partition(day, small_files=100, small_bytes=GIB) for day in range(20_000, 20_020)]
    due = WritingDag("ingest", next_due=NOW + timedelta(minutes=4), usual_duration=timedelta(minutes=3))
    whole = decide(DATA, health(small), policy(max_rewrite_bytes=20 * GIB))

    part = decide(DATA, health(small), policy(max_rewrite_bytes=20 * GIB), writers=written_by(due))

    assert whole.estimate is not None
    assert part.estimate is not None
    assert whole.estimate.seconds > 600
    assert 120 < part.estimate.seconds <= 240
    assert part.options["where"].count("DATE") * GIB == part.estimate.bytes_rewritten < whole.estimate.bytes_rewritten
    assert part.evidence.endswith(
        "DAG 'ingest', which writes to the table, is due at 2026-11-23 03:04:00 UTC, so only what takes 4 min is rewritten before"
    )
    assert part.reconsider_at == NOW + timedelta(minutes=7)


def test_a_rewrite_of_which_no_part_fits_before_a_writer_is_due_waits_until_the_writer_should_be_done() -> None:
    wide = partition(20_000, small_files=5, small_bytes=100 * GIB, data_files=5, large_files=100, large_bytes=9_000 * GIB)
    due = WritingDag("ingest", next_due=NOW + timedelta(minutes=3), usual_duration=timedelta(minutes=20))

    decision = decide(DATA, health([wide]), writers=written_by(due))

    assert (decision.verdict, decision.cause, decision.reconsider_at) == ("skip", "producer", NOW + timedelta(minutes=23))


def test_deletes_of_the_same_plan_wait_too_if_the_data_files_take_the_time_until_a_writer_is_due() -> None:
    small = [partition(day, small_files=100, small_bytes=GIB) for day in range(20_000, 20_004)]
    kept = partition(20_100, data_files=2, bytes=GIB, position_delete_files=12, delete_bytes=12 * MIB)
    seconds = decide(DATA, health([*small, kept])).estimate.seconds  # type: ignore[union-attr]  # it runs

    due = written_by(WritingDag("ingest", next_due=NOW + timedelta(seconds=seconds + 1)))
    plan = plan_table(health([*small, kept]), policy(), now=NOW, writers=due)

    assert (plan.of(DATA).verdict, plan.of(DELETES).verdict, plan.of(DELETES).cause) == ("run", "skip", "producer")


def test_past_its_deadline_a_rewrite_does_not_wait_for_a_dag_that_writes_to_the_table() -> None:
    ingest, overdue = WritingDag("ingest", running_since=NOW), policy({DATA: {"deadline": timedelta(days=7)}})

    record = ActionRecord(last_success_at=NOW - timedelta(days=8))

    assert decide(DATA, health(SICK), overdue, record, writers=written_by(ingest)).verdict == "run"


def test_a_plan_without_knowledge_of_writers_runs_and_says_so() -> None:
    unknown = TableWriters(unknown="Airflow's REST API is not configured")

    decision = decide(DATA, health(SICK), writers=lambda: unknown)

    assert decision.verdict == "run"
    assert decision.evidence.endswith("; the DAGs that write to the table are unknown: Airflow's REST API is not configured")


def test_an_estimate_is_corrected_by_what_earlier_runs_took() -> None:
    first = decide(DATA, health(SICK)).estimate
    second = decide(DATA, health(SICK), record=ActionRecord(runs=1, cost_factor=3.0, seconds_factor=2.0)).estimate

    assert first is not None
    assert second is not None
    assert second.gb_hours == pytest.approx(3 * first.gb_hours, rel=1e-3)
    assert second.seconds == pytest.approx(2 * first.seconds, rel=1e-3)
    assert second.files_removed == first.files_removed


def test_a_plan_survives_json() -> None:
    plan = plan_table(health([*SICK, *HEALTHY]), policy(), now=NOW)

    assert TablePlan.from_json(TABLE, plan.to_json()) == plan


@pytest.mark.parametrize(
    ("location", "given", "first", "option"),
    [
        ("file://{folder}", {}, True, {"quarantine": "P7D"}),
        ("file://{folder}/not-mounted-here/t", {}, True, {"approve_above_files": 0}),
        ("file:///proc", {}, True, {"approve_above_files": 0}),
        ("hdfs://nn/lake/t", {}, True, {"quarantine": "P7D"}),
        ("s3://lake/t", {}, True, {"approve_above_files": 0}),
        ("s3://lake/t", {"approve_above_files": 500}, True, {"approve_above_files": 500}),
        ("file://{folder}", {"quarantine": "30d"}, True, {"quarantine": "P30D"}),
        ("s3://lake/t", {}, False, {}),
    ],
)
def test_the_first_removal_of_a_fleet_can_be_undone_or_waits_unless_the_policy_decides(
    tmp_path: Path, location: str, given: dict[str, Any], first: bool, option: dict[str, Any]
) -> None:
    location = location.replace("{folder}", str(tmp_path))
    rules = policy({ORPHANS: {"enabled": True, "deadline": timedelta(days=7), "options": given}})
    decision = decide(ORPHANS, replace(health(HEALTHY), location=location), rules, first_removal=lambda: first)
    assert {name: value for name, value in decision.options.items() if "quarantine" in name or "above" in name} == {
        "quarantine_copy": False
    } | option
    assert ("first removal: " in decision.evidence) == (first and not given)
