"""Values that a caller gives are values to Spark, whatever characters they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, RewriteManifests, SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs.model import Job

ATTEMPTS = [
    "'; DROP TABLE {table}; --",
    "part = 0') ; DROP TABLE {table} ; CALL lake.system.rewrite_manifests('x",
    'part = 0", options => map("rewrite-all", "true") --',
    "part = 0\\' , strategy => \\'sort",
    "/* ${env:PATH} */ :table ? `",
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


def test_the_comment_cannot_be_left_either(rewritable: Callable[..., TableName], spark: SparkSession) -> None:
    name = rewritable(commits=2, deletes=0)
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
