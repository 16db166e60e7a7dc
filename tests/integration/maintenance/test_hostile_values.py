"""Values that a caller gives are values to Spark, whatever characters they are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus, JobWorker
from airflow_snowpack.jobs.model import ActionOutcome, Job
from airflow_snowpack.maintenance import Action, RewriteManifests, SparkEngine
from airflow_snowpack.maintenance.removals.records import Removals

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

ATTEMPTS = [
    "'; DROP TABLE {table}; --",
    "part = 0') ; DROP TABLE {table} ; CALL lake.system.rewrite_manifests('x",
    'part = 0", options => map("rewrite-all", "true") --',
    "part = 0\\' , strategy => \\'sort",
    "/* comment */ :table ? `",
    "part = 0 \n ); DROP TABLE {table}",
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_predicate_cannot_leave_its_argument(
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName, spark: SparkSession, attempt: str
) -> None:
    where = attempt.replace("{table}", one_commit.quoted)
    result = engine.run(job_for(one_commit, rewrite_data_files={"where": where}), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert result.error is not None
    assert "Cannot parse predicates in where option" in result.error
    assert spark.catalog.tableExists(str(one_commit))


NOTES = ["it's", 'a "quote"', "back\\slash", "two\nlines", "žluťoučký 🐎", "%s :table $x", "'; DROP TABLE x"]


@pytest.fixture(scope="module")
def noted(new_table: Callable[..., TableName], append: Callable[..., None]) -> TableName:
    """A table with a partition of two files for each of the notes."""
    name = new_table("id BIGINT, note STRING", "note")
    for number in range(2):
        append(name, id=[number] * len(NOTES), note=NOTES)
    return name


@pytest.mark.parametrize("note", NOTES)
def test_a_predicate_finds_the_value_that_it_means(
    engine: SparkEngine, job_for: Callable[..., Job], noted: TableName, note: str
) -> None:
    literal = "'" + note.replace("\\", "\\\\").replace("'", "\\'") + "'"
    options = {"where": f"note = {literal}", "min_input_files": 2}
    assert engine.run(job_for(noted, rewrite_data_files=options), Action.REWRITE_DATA_FILES).message == "Compacted 2 files into 1"


def test_the_comment_cannot_be_left_either(fragmented: Callable[..., TableName], spark: SparkSession) -> None:
    name = fragmented(commits=2, deletes=0)
    call = RewriteManifests().call(name, '*/ DROP TABLE x /* ${spark.app.name} " /* :table')
    row = spark.sql(call.sql, args=dict(call.args)).collect()[0]
    assert row["rewritten_manifests_count"] == 2


@pytest.mark.parametrize("location", ["/etc", "{inside}/../other", "s3://elsewhere/x", "{inside}'; DROP TABLE x"])
def test_a_location_is_refused_or_harmless(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    one_commit: TableName,
    spark: SparkSession,
    catalog: Catalog,
    location: str,
) -> None:
    inside = catalog.load_table(one_commit.identifier).location()
    job = job_for(one_commit, remove_orphan_files={"location": location.replace("{inside}", inside)})
    result = engine.run(job, Action.REMOVE_ORPHAN_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert spark.sql(f"SELECT count(*) AS n FROM {one_commit.quoted}").collect()[0]["n"] == 40


def test_a_job_that_was_stored_with_a_variable_in_its_predicate_reveals_nothing(
    engine: SparkEngine, removals: Removals, one_commit: TableName, caplog: pytest.LogCaptureFixture, spark: SparkSession
) -> None:
    home = spark._jvm.java.lang.System.getProperty("user.home")
    for variable in ("env:HOME", "system:user.home"):
        jobs = Jobs(removals.store)
        where = f"length(note) = '${{{variable}}}'"
        job = jobs.submit(one_commit, ["rewrite_data_files"], options={"rewrite_data_files": {"where": where}})

        worker = JobWorker(jobs, lambda: engine, worker_id="w", claim_next=partial(jobs.claim, "w", job_id=job.job_id))
        assert worker.run_once() is JobStatus.FAILED

        ended = jobs.get(job.job_id)
        shown = f"{ended} {jobs.history(job.job_id)} {caplog.text}"
        assert "has '${', with which Spark names a setting" in ended.error
        assert home not in shown


@pytest.mark.parametrize("variable", ["${env.HOME}", "${user.home}"])
def test_a_table_property_reads_no_variable_of_the_process(
    engine: SparkEngine, job_for: Callable[..., Job], fragmented: Callable[..., TableName], spark: SparkSession, variable: str
) -> None:
    name = fragmented(commits=2, deletes=0)
    spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ('comment' = '{variable}')")
    spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ('write.parquet.compression-level' = '{variable}')")
    result = engine.run(job_for(name, rewrite_data_files={"min_input_files": 2}), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.SKIPPED
    assert result.error is None
    assert result.message == (
        "Skipped: the table property write.parquet.compression-level has '${', with which Hadoop names a variable of its process"
    )


def test_an_error_of_spark_is_kept_without_secrets_of_the_environment(
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CRM", "postgres://crm:s3cr3t-w0rd@db/crm")
    where = "id = 's3cr3t-w0rd' AND note = 'postgres://crm:s3cr3t-w0rd@db/crm'"  # as a substitution would have made it
    result = engine.run(job_for(one_commit, rewrite_data_files={"where": where}), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert result.final
    assert result.error is not None
    assert "The value '***' of the type" in result.error
    assert "s3cr3t" not in result.error


def test_a_predicate_that_overflows_the_stack_fails_for_good(
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName
) -> None:
    where = "(" * 3_000 + "id = 1" + ")" * 3_000
    result = engine.run(job_for(one_commit, rewrite_data_files={"where": where}), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert result.final
    assert result.error is not None
    assert result.error.startswith("Spark's stack is too small for this statement. Simplify its predicate")
