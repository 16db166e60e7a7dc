"""The operators of builds in Airflow's own runner, on the embedded store and a local folder, written without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import sqlalchemy as sa
from built_runs import damage_shard
from published_builds import publish_build

from airflow_snowpack import operators
from airflow_snowpack.builds.build import Build
from airflow_snowpack.builds.model import Manifest
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import PublishOutcome, RunHandle, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.store.tables.builds import build_datasets
from tests.unit.faces.conftest import Outcome, Runner

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

Publish = Callable[..., PublishOutcome]
NIGHT = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 5)]
ROWS = [{"user": f"u{number}", "clicks": number} for number in range(20)]
# One shard: each is written by a process of its own.
BUILD: dict[str, Any] = {"dataset": "features", "key": "user", "num_shards": 1, "engine": "python"}
URI = "snowpack://builds/features"


def rows() -> list[dict[str, Any]]:
    return ROWS


def build(**arguments: Any) -> operators.ShardedBuildOperator:
    return operators.ShardedBuildOperator(
        task_id="build", **({"python_callable": rows, "as_of": NIGHT[1], "shard_format": "sqlite"} | BUILD | arguments)
    )


@pytest.fixture
def folder(installation: Path) -> Path:
    """The default folder of the dataset."""
    return installation / "lake" / "builds" / "features"


@pytest.fixture
def publish(builds: BuildRegistry, folder: Path) -> Publish:
    """Publish a run as of a night, without an operator."""

    def make(as_of: datetime, dataset: str = "features") -> PublishOutcome:
        return publish_build(builds, Storage(folder.parent / dataset), dataset, as_of=as_of, rows={"u1": 1, "u2": 2})

    return make


def declared(outcome: Outcome) -> list[str]:
    """The assets of a task that succeeded; Airflow leaves an event on each."""
    return [asset.uri for asset in outcome.message.task_outlets if asset.type == "Asset"]


def test_a_build_is_published_in_the_installations_folder_and_emits_its_event(
    run_operator: Runner, builds: BuildRegistry, folder: Path
) -> None:
    outcome = run_operator(build())

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["moved"]
    assert {name: outcome.xcom[name] for name in ("dataset", "run_id", "publication", "rows", "shards", "as_of")} == {
        "dataset": "features",
        "run_id": "20260102T000000Z",
        "publication": 1,
        "rows": 20,
        "shards": 1,
        "as_of": NIGHT[1].isoformat(),
    }
    assert SnapshotReader(folder).get("u7") == {"user": "u7", "clicks": 7}
    (event,) = outcome.events
    assert declared(outcome) == [URI]
    assert event["extra"] == {"run_id": "20260102T000000Z", "publication": 1, "rows": 20, "as_of": NIGHT[1].isoformat()}
    links = [each.value for each in outcome.sent if getattr(each, "key", None) == "_link_BuildRunLink"]
    assert links[0] == "/snowpack/ui/builds/features/runs/20260102T000000Z"


def test_without_a_word_about_it_a_build_is_as_of_the_end_of_the_data_interval_or_of_the_runs_own_moment() -> None:
    operator, before = build(as_of=None), datetime.now(UTC)
    run = SimpleNamespace(run_after=NIGHT[2])

    assert operator.moment(cast("Context", {"data_interval_end": NIGHT[3], "dag_run": run})) == NIGHT[3]
    assert operator.moment(cast("Context", {"data_interval_end": None, "dag_run": run})) == NIGHT[2], "at each of its tries"
    assert before <= operator.moment(cast("Context", {})) <= datetime.now(UTC)


def test_an_older_day_goes_into_history_and_leaves_no_event(
    run_operator: Runner, builds: BuildRegistry, folder: Path, publish: Publish
) -> None:
    publish(NIGHT[1])
    outcome = run_operator(build(as_of=NIGHT[0]))

    assert outcome.state == "success"
    assert (outcome.xcom["moved"], outcome.xcom["publication"]) == (False, None)
    assert "history" in outcome.xcom["reason"]
    assert declared(outcome) == outcome.events == []
    assert SnapshotReader(folder).manifest.run_id == "20260102T000000Z"
    assert builds.run("features", "20260101T000000Z").status is RunStatus.SUCCEEDED


def test_a_cleared_build_is_built_again_as_of_the_same_moment_and_replaces_the_first(
    run_operator: Runner, folder: Path, publish: Publish
) -> None:
    publish(NIGHT[1])
    outcome = run_operator(build(keep_runs=1))

    assert (outcome.xcom["run_id"], outcome.xcom["moved"]) == ("20260102T000000Z.2", True)
    assert SnapshotReader(folder).manifest.run_id == "20260102T000000Z.2"
    assert outcome.xcom["cleanup"]["failed"] == 0
    assert [run.name for run in (folder / "data").iterdir()] == ["20260102T000000Z.2"]


def test_a_build_that_fails_has_a_reason_and_readers_keep_what_they_have(
    run_operator: Runner, builds: BuildRegistry, folder: Path, publish: Publish
) -> None:
    def broken() -> list[dict[str, Any]]:
        return [*ROWS, {"user": None, "clicks": 0}]

    publish(NIGHT[1])
    outcome = run_operator(build(as_of=NIGHT[2], python_callable=broken))

    assert outcome.state == "failed"  # for good: a key that is null is null at the next try
    assert "null" in str(outcome.error)
    failed = builds.run("features", "20260103T000000Z")
    assert failed.status is RunStatus.FAILED
    assert "null" in (failed.error or "")
    assert SnapshotReader(folder).manifest.run_id == "20260102T000000Z"


def test_a_retry_fails_the_run_that_its_own_try_before_has_left_behind(
    run_operator: Runner, builds: BuildRegistry, folder: Path
) -> None:
    left = builds.begin("features", str(folder), as_of=NIGHT[1], num_shards=2, owner="guard/run1/build")
    outcome = run_operator(build(), try_number=2)

    assert outcome.xcom["run_id"] == f"{left.run_id}.2"
    assert builds.run("features", left.run_id).status is RunStatus.FAILED
    assert not builds.heartbeat(left)


def test_an_iceberg_table_is_built_without_spark_and_its_snapshot_is_named(
    run_operator: Runner, flights: TableName, installation: Path
) -> None:
    outcome = run_operator(build(table="demo.flights", python_callable=None, key="month", dataset="by_month"))

    assert outcome.state == "success", outcome.error
    reader = SnapshotReader(installation / "lake" / "builds" / "by_month")
    assert len(reader.get_all(1)) == 6
    (source,) = reader.manifest.sources
    assert (source["table"], type(source["snapshot_id"])) == ("lake.demo.flights", int)


def test_categories_and_numbers_may_be_templates(run_operator: Runner, installation: Path) -> None:
    arguments = {
        "num_shards": None,
        "category_column": "{{ params.column }}",
        "categories": "{{ params.categories }}",
        "keep_runs": "{{ params.keep }}",
        "url": f"{installation}/elsewhere",
    }
    params = {"column": "user", "categories": ["u1", "u2"], "keep": 3}
    outcome = run_operator(build(python_callable=lambda: ROWS[1:3], **arguments), params=params)

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["shards"] == 2
    assert SnapshotReader(installation / "elsewhere").get("u2") == {"user": "u2", "clicks": 2}


def test_a_function_gets_what_it_names_of_the_context_and_of_its_arguments(run_operator: Runner, folder: Path) -> None:
    def made(run_id: str, prefix: str) -> list[dict[str, Any]]:
        return [{"user": f"{prefix}{run_id}", "clicks": 1}]

    run_operator(build(python_callable=made, op_kwargs={"prefix": "{{ params.prefix }}"}), params={"prefix": "p-"})

    assert [row["user"] for row in SnapshotReader(folder).scan()] == ["p-run1"]


def steps(
    url: str | None = None,
) -> tuple[operators.BuildShardsOperator, operators.SelectWinnersOperator, operators.PublishBuildOperator]:
    from airflow.sdk import DAG

    with DAG("guard", schedule=None):
        write = operators.BuildShardsOperator(task_id="write", python_callable=rows, as_of=NIGHT[1], url=url, **BUILD)
        select = operators.SelectWinnersOperator(task_id="select", build=write.output)
        publish = operators.PublishBuildOperator(task_id="publish", build=select.output)
    return write, select, publish


def handed(operator: BaseOperator, outcome: Outcome) -> BaseOperator:
    """The operator with the XCom of the step before as a template renders it: as text."""
    operator.build = str(json.loads(json.dumps(outcome.xcom)))  # type: ignore[attr-defined]
    return operator


def test_the_steps_hand_the_run_on_and_publish_what_was_selected(
    run_operator: Runner, builds: BuildRegistry, folder: Path
) -> None:
    write, select, publish = steps()
    written = run_operator(write)
    assert written.state == "success", written.error
    run_id = written.xcom["run_id"]
    assert builds.run("features", run_id).status is RunStatus.RUNNING
    selected = run_operator(handed(select, written))
    assert selected.state == "success", selected.error
    assert builds.run("features", run_id).holder == "guard/run1/select", "so long as that holds it, no cleanup takes it for dead"
    assert {name: selected.xcom[name] for name in ("rows", "attempts", "losers", "shards")} == {
        "rows": 20,
        "attempts": 1,
        "losers": 0,
        "shards": 1,
    }
    publish.build = selected.xcom  # and as an XComArg gives it
    published = run_operator(publish)

    assert published.state == "success", published.error
    assert (published.xcom["moved"], published.xcom["rows"]) == (True, 20)
    assert declared(published) == [URI]
    assert SnapshotReader(folder).get("u1") == {"user": "u1", "clicks": 1}
    assert all(len(json.dumps(outcome.xcom)) < 2000 for outcome in (written, selected, published))

    again = run_operator(handed(publish, selected), try_number=2)
    assert (again.state, again.xcom) == ("success", published.xcom)
    assert len(builds.publications("features")) == 1


def test_a_publication_that_lost_the_datasets_lock_is_tried_again(
    run_operator: Runner, builds: BuildRegistry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, select, publish = steps()
    selected = run_operator(handed(select, run_operator(write)))
    checked = DatasetLock.check

    def sleep_through_the_lease(lock: DatasetLock) -> None:
        builds.store.transact(lambda conn: conn.execute(sa.update(build_datasets).values(attempt_id="another's")))
        checked(lock)

    with monkeypatch.context() as patched:
        patched.setattr(DatasetLock, "check", sleep_through_the_lease)
        lost = run_operator(handed(publish, selected))
    assert lost.state == "up_for_retry"
    assert "Another attempt has taken over the dataset features" in str(lost.error)
    builds.store.transact(lambda conn: conn.execute(sa.update(build_datasets).values(claimed_at=None)))
    assert run_operator(handed(publish, selected), try_number=2).xcom["moved"]


def test_a_damaged_shard_is_refused_by_each_operator_that_verifies_checksums(
    run_operator: Runner, builds: BuildRegistry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, publish_build_of = Storage(folder), Build.publish
    write, select, publish = steps()
    selected = run_operator(handed(select, run_operator(write)))
    path = damage_shard(storage, selected.xcom["run_id"])
    publish.verify = "checksums"
    refused = run_operator(handed(publish, selected))
    assert f"{path} cannot be used" in str(refused.error)
    assert builds.run("features", selected.xcom["run_id"]).status is RunStatus.FAILED

    def damaged_before(build: Build, handle: RunHandle, manifest: Manifest, **how: Any) -> PublishOutcome:
        damage_shard(storage, handle.run_id)
        return publish_build_of(build, handle, manifest, **how)

    monkeypatch.setattr(Build, "publish", damaged_before)
    assert "shard=00000" in str(run_operator(build(verify="checksums")).error)
    assert builds.dataset("features").current_run is None
    assert run_operator(build()).state == "success", "its size is right"


def test_a_shard_without_an_attempt_is_named(run_operator: Runner, folder: Path) -> None:
    write, select, _ = steps()
    written = run_operator(write)
    (record,) = (folder / "data" / written.xcom["run_id"] / "shard=00000").glob("*/_ATTEMPT.json")
    record.unlink()
    outcome = run_operator(handed(select, written))

    assert "shard 0" in str(outcome.error)


def test_a_rollback_gives_readers_the_build_before_and_leaves_its_event(
    run_operator: Runner, folder: Path, publish: Publish
) -> None:
    publish(NIGHT[0])
    publish(NIGHT[1])
    outcome = run_operator(
        operators.RollbackBuildOperator(task_id="back", dataset="features", to="{{ params.to }}"), params={"to": "-1"}
    )

    assert outcome.state == "success", outcome.error
    assert (outcome.xcom["run_id"], outcome.xcom["publication"], outcome.xcom["rows"]) == ("20260101T000000Z", 3, 2)
    assert declared(outcome) == [URI]
    assert SnapshotReader(folder).manifest.run_id == "20260101T000000Z"


def test_a_retry_of_a_rollback_finds_it_done_and_leaves_its_event(run_operator: Runner, folder: Path, publish: Publish) -> None:
    for night in NIGHT[:3]:
        publish(night)
    first, again = (
        run_operator(operators.RollbackBuildOperator(task_id="back", dataset="features", to="-1"), try_number=number)
        for number in (1, 2)
    )

    assert again.state == "success", again.error
    assert first.xcom == again.xcom
    assert declared(again) == [URI]
    assert SnapshotReader(folder).manifest.run_id == "20260102T000000Z"


def test_a_rollback_to_what_is_not_there_fails_for_good(run_operator: Runner, publish: Publish) -> None:
    publish(NIGHT[0])
    outcome = run_operator(operators.RollbackBuildOperator(task_id="back", dataset="features", to="20200101T000000Z"))

    assert outcome.state == "failed"
    assert "20200101T000000Z" in str(outcome.error)


def test_a_cleanup_previews_and_then_deletes_what_is_beyond(run_operator: Runner, folder: Path, publish: Publish) -> None:
    for night in NIGHT[:3]:
        publish(night)
    plan = run_operator(operators.CleanupBuildsOperator(task_id="look", keep_runs=1, dry_run=True))
    assert plan.state == "success", plan.error
    assert (folder / "data" / "20260101T000000Z").exists()
    done = run_operator(operators.CleanupBuildsOperator(task_id="clean", dataset="features", keep_runs="{{ 1 }}"))

    (planned,), (deleted,) = plan.xcom, done.xcom
    assert planned["paths"] == deleted["paths"]
    assert (planned["actions"], deleted["actions"]) == ({"old_runs": 4}, {"old_runs": 4})
    assert deleted["objects"] > 0
    assert not (folder / "data" / "20260101T000000Z").exists()
    assert SnapshotReader(folder).manifest.run_id == "20260103T000000Z"


def test_a_cleanup_of_all_datasets_leaves_the_one_that_another_process_works_on_for_the_next_time(
    run_operator: Runner, builds: BuildRegistry, publish: Publish
) -> None:
    publish(NIGHT[0])
    publish(NIGHT[0], "others")
    with builds.lock("features", "another process"):
        outcome = run_operator(operators.CleanupBuildsOperator(task_id="clean"))
        named = run_operator(operators.CleanupBuildsOperator(task_id="named", dataset="features"))

    assert ["busy" in each for each in outcome.xcom] == [True, False]
    assert named.state == "up_for_retry"
    assert "another process" in str(named.error)


def test_a_cleanup_of_all_datasets_goes_on_behind_one_in_trouble_and_fails_at_its_end(
    run_operator: Runner, folder: Path, publish: Publish
) -> None:
    publish(NIGHT[0])
    for night in NIGHT[:2]:
        publish(night, "others")
    (folder / "_CURRENT").write_bytes((folder.parent / "others" / "_CURRENT").read_bytes())
    outcome = run_operator(operators.CleanupBuildsOperator(task_id="clean", keep_runs=1))

    assert outcome.state == "up_for_retry"
    assert "1 dataset could not be cleaned up; the others were. features: " in str(outcome.error)
    assert [run.name for run in (folder.parent / "others" / "data").iterdir()] == ["20260102T000000Z"]


def test_a_dataset_that_is_known_when_the_task_runs_leaves_its_event_through_the_alias(
    run_operator: Runner, publish: Publish
) -> None:
    from airflow_snowpack.assets import published_builds

    publish(NIGHT[0])
    publish(NIGHT[1])
    operator = operators.RollbackBuildOperator(task_id="back", dataset="{{ params.dataset }}", to="20260101T000000Z")
    assert operator.outlets == [published_builds()]
    outcome = run_operator(operator, params={"dataset": "features"})

    assert outcome.state == "success", outcome.error
    (event,) = outcome.events
    assert event["dest_asset_key"]["uri"] == URI


def test_the_outlet_is_the_dataset_unless_it_starts_the_dag() -> None:
    from airflow_snowpack.assets import build_asset

    _, _, publish = steps()
    assert publish.outlets == [build_asset("features")]

    from airflow.sdk import DAG

    from airflow_snowpack.assets import build_asset

    with DAG("guard", schedule=build_asset("features")):
        assert build().outlets == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"table": "demo.flights"}, "one of table, sql and python_callable"),
        ({"python_callable": None}, "one of table, sql and python_callable"),
        ({"num_shards": None}, "sharded by one of these"),
        ({"max_keys_per_shard": 10}, "sharded by one of these"),
        ({"category_column": "user"}, "sharded by one of these"),
        ({"expression": "id % 2", "engine": "python"}, "need Spark"),
        ({"engine": "dask"}, "engine = 'dask'"),
    ],
)
def test_invalid_arguments_are_refused_while_the_file_is_parsed(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        build(**arguments)


def test_what_a_retry_would_meet_again_fails_for_good_before_anything_is_begun(
    run_operator: Runner, builds: BuildRegistry
) -> None:
    for arguments, expected in [
        ({"num_shards": "{{ params.nothing }}"}, "num_shards"),
        ({"num_shards": "0"}, "1 to 100,000"),
        ({"shard_format": "csv"}, "parquet, sqlite"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"keep_runs": 0}, "keep_runs"),
        ({"stale_attempt_age": "soon"}, "stale_attempt_age"),
        ({"key": "nobody"}, "nobody"),
    ]:
        outcome = run_operator(build(**arguments), params={"nothing": "x"})

        assert outcome.state == "failed", outcome.error
        assert expected in str(outcome.error)

    for operator in ["SelectWinnersOperator", "PublishBuildOperator"]:
        outcome = run_operator(getattr(operators, operator)(task_id="step", build="{'rows': 3}"))

        assert outcome.state == "failed"
        assert "build=write.output" in str(outcome.error)
