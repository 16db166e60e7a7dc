"""Values that a caller gives are values to Spark, whatever characters they are made of."""

from __future__ import annotations

from functools import partial

import pytest
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus, JobWorker
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, RewriteManifests

ATTEMPTS = [
    "'; DROP TABLE {table}; --",
    "part = 0') ; DROP TABLE {table} ; CALL lake.system.rewrite_manifests('x",
    'part = 0", options => map("rewrite-all", "true") --',
    "part = 0\\' , strategy => \\'sort",
    "/* comment */ :table ? `",
    "part = 0 \n ); DROP TABLE {table}",
]
NOTES = ["it's", 'a "quote"', "back\\slash", "two\nlines", "žluťoučký 🐎", "%s :table $x", "'; DROP TABLE x"]


def test_no_predicate_leaves_its_argument(world: SparkWorld, one_commit: TableName) -> None:
    for attempt in ATTEMPTS:
        result = world.run(one_commit, Action.REWRITE_DATA_FILES, where=attempt.replace("{table}", one_commit.quoted))
        assert result.outcome is ActionOutcome.FAILED, attempt
        assert "Cannot parse predicates in where option" in str(result.error), attempt
        assert world.spark.catalog.tableExists(str(one_commit)), attempt


def test_a_predicate_finds_the_values_that_it_means(world: SparkWorld) -> None:
    """Each of them has a partition of two files."""
    name = world.new_table("id BIGINT, note STRING", "note")
    for number in range(2):
        world.append(name, id=[number] * (len(NOTES) + 1), note=[*NOTES, "another"])
    literals = ["'" + note.replace("\\", "\\\\").replace("'", "\\'") + "'" for note in NOTES]

    where = " OR ".join(f"note = {literal}" for literal in literals)
    result = world.run(name, Action.REWRITE_DATA_FILES, where=where, min_input_files=2, partial_progress=False)
    assert result.message == f"Compacted {2 * len(NOTES)} files into {len(NOTES)}"

    partitions = world.table(name).inspect.partitions().to_pylist()
    files = {each["partition"]["note"]: each["file_count"] for each in partitions}
    assert files == dict.fromkeys(NOTES, 1) | {"another": 2}


def test_the_comment_cannot_be_left_either(world: SparkWorld) -> None:
    name = world.fragmented(commits=2, deletes=0)
    call = RewriteManifests().call(name).of('*/ DROP TABLE x /* ${spark.app.name} " /* :table', 1)
    row = world.spark.sql(call.sql, args=dict(call.args)).collect()[0]
    assert row["rewritten_manifests_count"] == 2


def test_a_location_is_refused_or_harmless(world: SparkWorld, one_commit: TableName) -> None:
    inside = world.table(one_commit).location()
    for location in ("/etc", f"{inside}/../other", "s3://elsewhere/x", f"{inside}'; DROP TABLE x"):
        result = world.run(one_commit, Action.REMOVE_ORPHAN_FILES, location=location)
        assert result.outcome is ActionOutcome.FAILED, location
        assert world.value(f"SELECT count(*) FROM {one_commit.quoted}") == 40, location


def test_a_job_that_was_stored_with_a_variable_in_its_predicate_reveals_nothing(
    world: SparkWorld, one_commit: TableName, caplog: pytest.LogCaptureFixture
) -> None:
    home, jobs = world.spark._jvm.java.lang.System.getProperty("user.home"), Jobs(world.removals.store)
    for variable in ("env:HOME", "system:user.home"):
        where = f"length(note) = '${{{variable}}}'"
        job = jobs.submit(one_commit, ["rewrite_data_files"], options={"rewrite_data_files": {"where": where}})

        worker = JobWorker(jobs, lambda: world.engine, worker_id="w", claim_next=partial(jobs.claim, "w", job_id=job.job_id))
        assert worker.run_once() is JobStatus.FAILED

        ended = jobs.get(job.job_id)
        shown = f"{ended} {jobs.history(job.job_id)} {caplog.text}"
        assert "has '${', with which Spark names a setting" in ended.error
        assert home not in shown


@pytest.mark.parametrize("variable", ["${env.HOME}", "${user.home}"])
def test_a_table_property_reads_no_variable_of_the_process(world: SparkWorld, variable: str) -> None:
    name = world.fragmented(commits=2, deletes=0)
    properties = f"'comment' = '{variable}', 'write.parquet.compression-level' = '{variable}'"
    world.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({properties})")
    result = world.run(name, Action.REWRITE_DATA_FILES, min_input_files=2)
    assert result.outcome is ActionOutcome.SKIPPED
    assert result.error is None
    assert result.message == (
        "Skipped: the table property write.parquet.compression-level has '${', with which Hadoop names a variable of its process"
    )


def test_an_error_of_spark_is_kept_without_secrets_of_the_environment(
    world: SparkWorld, one_commit: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CRM", "postgres://crm:s3cr3t-w0rd@db/crm")
    where = "id = 's3cr3t-w0rd' AND note = 'postgres://crm:s3cr3t-w0rd@db/crm'"  # as a substitution would have made it
    result = world.run(one_commit, Action.REWRITE_DATA_FILES, where=where)
    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert "The value '***' of the type" in str(result.error)
    assert "s3cr3t" not in str(result.error)


def test_a_predicate_that_overflows_the_stack_fails_for_good(world: SparkWorld, one_commit: TableName) -> None:
    result = world.run(one_commit, Action.REWRITE_DATA_FILES, where="(" * 3_000 + "id = 1" + ")" * 3_000)
    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert str(result.error).startswith("Spark's stack is too small for this statement. Simplify its predicate")
