"""The table that Spark has is recognised, whatever Spark remembers of it."""

from __future__ import annotations

from dataclasses import replace

from spark_world import SparkWorld

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action


def test_a_table_that_spark_remembers_as_empty_is_recognised_after_its_first_commit(
    world: SparkWorld, lake: CatalogConfig
) -> None:
    name = world.new_table("id BIGINT")
    remembering = world.spark.newSession()
    for key, value in {**lake.spark_conf(), "spark.sql.catalog.lake.cache-enabled": "true"}.items():
        remembering.conf.set(key, value)
    assert remembering.sql(f"SELECT * FROM {name.quoted}").collect() == []
    world.append(name, id=[1])

    result = replace(world, spark=remembering).run(name, Action.REWRITE_DATA_FILES)

    assert (result.outcome, result.error) == (ActionOutcome.SUCCEEDED, None)
