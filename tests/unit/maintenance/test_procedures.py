"""The statements: our own words and markers, and every value beside them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance import (
    Action,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    Strategy,
    parse_options,
)

TABLE = TableName("lake", "db", "t-1")
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_defaults_are_the_specifications() -> None:
    call = RewriteDataFiles().call(TABLE)
    settings = dict(zip(re.findall(r"'([\w.-]+)', :setting", call.sql), list(call.args.values())[2:], strict=True))
    assert settings == {
        "target-file-size-bytes": "536870912",
        "min-file-size-bytes": "402653184",
        "max-file-size-bytes": "966367641",
        "max-file-group-size-bytes": "107374182400",
        "min-input-files": "5",
        "delete-file-threshold": "2",
        "delete-ratio-threshold": "0.1",
        "rewrite-all": "false",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "10",
        "max-concurrent-file-group-rewrites": "5",
        "remove-dangling-deletes": "false",
    }
    assert call.args["table"] == "`lake`.`db`.`t-1`"
    assert call.args["strategy"] == "binpack"


def test_nothing_of_a_value_is_in_the_text() -> None:
    options = parse_options(Action.REWRITE_DATA_FILES, {"where": "secret = 'value'", "min_input_files": 77})
    assert isinstance(options, RewriteDataFiles)
    call = options.call(TABLE)
    assert "where => :where" in call.sql
    assert call.args["where"] == "secret = 'value'"
    assert "secret" not in call.sql
    assert "77" not in call.sql


def test_the_statement_begins_with_where_it_comes_from() -> None:
    call = RewriteManifests().call(TABLE).of("j1", 2)
    comment, _, rest = call.sql.partition(" */ ")
    assert json.loads(comment.removeprefix("/* ")) == {
        "app": "airflow_snowpack",
        "table": "lake.db.t-1",
        "action": "rewrite_manifests",
        "job_id": "j1",
        "attempt": 2,
    }
    assert rest == "CALL `lake`.system.rewrite_manifests(table => :table)"


def test_the_comment_survives_any_origin() -> None:
    hostile = '*/ x /* ${a} " \\ \n`'
    call = RewriteManifests().call(TABLE).of(hostile, 1)
    assert call.sql.count("/*") == call.sql.count("*/") == 1
    assert "$" not in call.sql
    assert json.loads(call.sql[3 : call.sql.index(" */")])["job_id"] == hostile


def test_ages_are_counted_back_from_now() -> None:
    plan = RemoveOrphanFiles().planning_call(TABLE, now=NOW, prefix_listing=False)
    assert plan.args["older_than"] == NOW - timedelta(days=3)
    assert plan.args["dry_run"] is True
    assert "prefix_listing" not in plan.sql


def test_nothing_but_the_listed_snapshots_is_old_enough_to_expire() -> None:
    call = ExpireSnapshots(clean_expired_metadata=True).call(TABLE, [7, 8])
    assert (call.args["snapshot_ids_0"], call.args["snapshot_ids_1"]) == (7, 8)
    assert call.args["older_than"] == datetime(1970, 1, 2, tzinfo=UTC)
    assert (call.args["stream_results"], call.args["clean_expired_metadata"]) == (True, True)
    assert call.args["retain_last"] == 2**31 - 1, "a branch with an age of its own keeps what is not listed"
    assert "max_concurrent_deletes" not in call.sql
    assert "snapshot_ids" not in ExpireSnapshots().call(TABLE, []).sql


def test_a_z_order_is_a_sort_to_iceberg() -> None:
    options = RewriteDataFiles(strategy=Strategy.ZORDER, zorder_columns=("a", "b"))
    call = options.call(TABLE)
    assert (call.args["strategy"], call.args["sort_order"]) == ("sort", "zorder(a, b)")


def test_a_strict_call_lets_no_commit_fail_in_silence() -> None:
    strict = RewriteDataFiles().call(TABLE, strict=True)
    assert "'partial-progress.max-failed-commits'" in strict.sql
    alone = RewriteDataFiles(partial_progress=False).call(TABLE, strict=True)
    assert "max-failed-commits" not in alone.sql


def test_delete_files_have_their_own_statement() -> None:
    call = RewritePositionDeleteFiles(where="day = 1").call(TABLE)
    assert "system.rewrite_position_delete_files(table => :table, where => :where, options => map(" in call.sql
    assert "target-file-size-bytes" not in call.sql
